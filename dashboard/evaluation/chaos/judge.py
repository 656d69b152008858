"""The verdict on one run: every invariant of a group that is struck, over its whole history. Pure.

Safety holds all the time; that it is even, quiet and caught up again only after the heal. What is
not known is not judged.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assignment.scripts.lock_events import LockEvent
from assignment.types import INCARNATION_STEP, Offset, Partition
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.effects import judged_effects
from dashboard.evaluation.chaos.eye import Sample
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.figures import ENDS, name_of, regrants
from dashboard.evaluation.judge import HELD, VACUOUS, VIOLATED, Content, Effects

NAMED_MAX = 5  # of one kind; the rest only counted
# Nobody's partitions move by these: nobody is hurt.
HARMLESS = frozenset(
    (
        *("web-kill", "worker-kill", "beat-kill", "dashboard-kill", "database-away"),
        *("double-rebalance", "coordination-switch"),
    )
)
HARMLESS_PARTS = ("cut-dashboard",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`healed` False: the faults could not be undone, or nobody could look at the group for long
    enough then.
    """

    violations: tuple[str, ...]
    effects: Effects
    recovered_ms: int | None
    vacuous: bool
    healed: bool

    @property
    def held(self) -> bool:
        return not self.violations

    @property
    def exit_code(self) -> int:
        if not self.held:
            return VIOLATED
        return VACUOUS if self.vacuous or not self.healed else HELD


def judge(history: History) -> Verdict:
    counted, wrong = judged_effects(history)
    recovered_ms = recovery_ms(history)
    clock = "clock-back" not in history.asked.faults  # else times cannot be compared
    found = {
        "fences": fences(history.events),
        "grants": [text for era in history.eras for text in overlaps(era.events)],
        "commits": [t for era in history.eras for t in late_commits(era)] if clock else [],
        "answers": unrefused(history) if clock else [],
        "locks": revived(history.samples),
        "moments": moments(history.samples),
        "modes": modes(history.samples),
        "targets": [*targets(history), *old_modes(history)] if clock else [],
        "moves": causeless(history),
        "agents": history.ended,
        "answered": [text for fault in history.faults for text in fault.wrong],
        "effects": wrong,
        "recovery": after_heal(history, recovered_ms),
    }
    return Verdict(
        violations=tuple(text for texts in found.values() for text in bounded(list(texts))),
        effects=counted,
        recovered_ms=recovered_ms,
        vacuous=is_vacuous(history),
        healed=bool(seen_after_heal(history)) and not is_cut_short(history, recovered_ms),
    )


def bounded(texts: Sequence[str]) -> list[str]:
    more = len(texts) - NAMED_MAX
    return [*texts[:NAMED_MAX], *([f"and {more} more of this kind"] if more > 0 else [])]


def is_vacuous(history: History) -> bool:
    """A fault that did nothing shows nothing, nor does a run without events."""
    did_nothing = any(fault.worked is False for fault in history.faults)
    return did_nothing or not history.faults or not history.acknowledged


# --- fences, grants, locks


def fences(events: Iterable[LockEvent]) -> Iterator[str]:
    """A (partition, fence) is one member's, and fences grow."""
    owner: dict[tuple[Partition, int], str] = {}
    highest: dict[Partition, int] = {}
    for e in events:
        if e.kind != "acquired":
            continue
        before = owner.setdefault((e.partition, e.fence), e.member_id)
        if before != e.member_id:
            yield f"fence {e.fence} of {e.partition} was given to {before} and to {e.member_id}"
        elif (last := highest.get(e.partition, 0)) >= e.fence:
            yield f"{e.partition} was granted under fence {e.fence} after fence {last}"
        highest[e.partition] = max(e.fence, highest.get(e.partition, 0))


def overlaps(events: Iterable[LockEvent]) -> Iterator[str]:
    """Of one era: what is granted has ended before, but for a claim of an older incarnation."""
    held: dict[Partition, LockEvent] = {}
    ended: dict[tuple[Partition, int], int] = {}
    for e in events:
        if e.kind in ENDS:
            ended[e.partition, e.fence] = e.at_ms
            continue
        if e.kind != "acquired":
            continue
        before = held.get(e.partition)
        held[e.partition] = e
        if before is None or before.fence // INCARNATION_STEP != e.fence // INCARNATION_STEP:
            continue
        end_ms = ended.get((e.partition, before.fence))
        if end_ms is None or end_ms > e.at_ms:
            yield (
                f"{e.partition} was granted to {e.member_id}/{e.fence} while"
                f" {before.member_id}/{before.fence} had it"
            )


def revived(samples: Iterable[Sample]) -> Iterator[str]:
    """A lock that was gone never comes back under its fence."""
    gone: dict[str, set[int]] = defaultdict(set)
    last: dict[str, int] = {}
    run_id = ""
    for sample in samples:
        if sample.run_id != run_id:
            gone, last, run_id = defaultdict(set), {}, sample.run_id
        for partition in [p for p in last if p not in sample.locks]:
            gone[partition].add(last.pop(partition))
        for partition, (member, fence) in sample.locks.items():
            if fence in gone[partition]:
                yield f"{member} took the lock of {partition} again after it had ended: {fence}"
                gone[partition].discard(fence)
            if last.get(partition, fence) != fence:
                gone[partition].add(last[partition])
            last[partition] = fence


def moments(samples: Iterable[Sample]) -> list[str]:
    """Invariants that did not hold when somebody looked, each once."""
    return list(dict.fromkeys(text for sample in samples for text in sample.faults))


# --- coordination


def mode_of(sample: Sample) -> tuple[str, int, int, str]:
    return sample.run_id, sample.incarnation, sample.mode_epoch, sample.coordination


def modes(samples: Iterable[Sample]) -> Iterator[str]:
    """In one run of Redis, within an incarnation, mode_epoch never falls, and who coordinates
    changes only with it.
    """
    last: dict[tuple[str, int], tuple[int, str]] = {}
    for sample in samples:
        run_id, incarnation, epoch, mode = mode_of(sample)
        before, was = last.get((run_id, incarnation), (epoch, mode))
        last[run_id, incarnation] = epoch, mode
        if epoch < before:
            yield f"mode_epoch fell from {before} to {epoch} in incarnation {incarnation}"
        elif epoch == before and mode != was:
            yield f"coordination went from {was} to {mode} under mode_epoch {epoch}"


def old_modes(history: History) -> Iterator[str]:
    """No target is of another coordination than the group had then. Known where the looks before
    and after agree; the second one after, as the first one may have read just before.
    """
    times = [sample.at_ms for sample in history.samples]
    for target in history.targets or ():
        after = bisect_right(times, target.at_ms)
        if not target.by or after == 0 or after + 1 >= len(times):
            continue
        now = history.samples[after - 1]
        if mode_of(now) == mode_of(history.samples[after + 1]) and target.by != now.coordination:
            yield (
                f"target {target.epoch} was computed under coordination {target.by},"
                f" not {now.coordination}"
            )


# --- commits


def late_commits(era: Content) -> Iterator[str]:
    """Nobody commits under a fence once a higher one was granted."""
    granted: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for e in era.events:
        if e.kind == "acquired":
            granted[e.partition].append((e.at_ms, e.fence))
    for partition, entries in era.commits.items():
        for entry in entries:
            at_ms = Offset.parse(entry.entry_id).ms
            newer = [f for ms, f in granted[partition] if ms < at_ms and f > entry.fence]
            if newer:
                yield (
                    f"{partition}: a commit under fence {entry.fence} was accepted after fence"
                    f" {max(newer)} was granted"
                )


def unrefused(history: History) -> Iterator[str]:
    """What is asked under a fence that is not the last is refused, whatever it asks for."""
    granted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for e in history.events:
        if e.kind == "acquired":
            granted[str(e.partition)].append((e.at_ms, e.fence))
    for one in history.answers or ():
        newer = [f for ms, f in granted[one.partition] if ms < one.asked_ms and f > one.fence]
        if newer and one.answer != "fenced":
            yield (
                f"{one.partition}: a commit of {one.member} under fence {one.fence} after fence"
                f" {max(newer)} was granted was answered {one.answer}, not fenced"
            )


# --- targets and moves


def targets(history: History) -> Iterator[str]:
    """Epochs grow with the time; the records themselves come by their epochs."""
    for before, after in pairwise(sorted(history.targets or (), key=lambda one: one.at_ms)):
        if (after.incarnation, after.epoch) <= (before.incarnation, before.epoch):
            yield f"target {after.epoch} was stored after target {before.epoch}"


def harmless(asked: Asked) -> bool:
    return all(
        name in HARMLESS or (name.endswith(HARMLESS_PARTS) and asked.coordination == "server")
        for name in asked.faults
    )


def causeless(history: History) -> Iterator[str]:
    """No partition goes from one member to another, both of whom nobody struck; of static members
    none at all, as they come back, and those that nobody struck keep their fences.
    """
    if not history.asked.kind.keeps and not harmless(history.asked):
        return
    if any(fault.name == "strategy-change" for fault in history.faults):
        return
    if harmless(history.asked):
        yield from anew(history)
        return
    is_static = history.asked.is_static
    hurt = frozenset() if is_static else history.hurt
    for before, e in regranted(history):
        if before.member_id == e.member_id:
            if is_static and name_of(e.member_id) not in history.hurt:
                yield anew_text(e)
            continue
        between = named_between(history, e.partition, before.at_ms, e.at_ms)
        if not {name_of(before.member_id), name_of(e.member_id), *between} & hurt:
            yield f"{e.partition} went from {before.member_id} to {e.member_id} without a cause"


def anew(history: History) -> Iterator[str]:
    """Where nobody is hurt nothing is granted: no partition moves, no fence changes."""
    for _, e in regranted(history):
        yield anew_text(e)


def anew_text(e: LockEvent) -> str:
    return f"{e.partition} was granted anew, to {e.member_id}, without a cause"


def regranted(history: History) -> Iterator[tuple[LockEvent, LockEvent]]:
    """The grant before and each since the first fault, but those of which nobody knows: the machine
    let the owner before not run for so long that its lease may have ended by that alone.
    """
    timings = history.asked.timings
    for before, e in regrants(history.events):
        if e.at_ms < history.struck_ms:
            continue
        since_ms, owner = e.at_ms - 2 * timings.lease_ms, name_of(before.member_id)
        held_up_ms = history.held_up_ms(since_ms, e.at_ms, [owner])
        if 2 * held_up_ms < timings.lease_ms - timings.renew_ms:
            yield before, e


def named_between(
    history: History, partition: Partition, from_ms: int, to_ms: int
) -> frozenset[str]:
    """Agents that the targets of that time gave it to, whether they could take it or not."""
    owners = [
        t.owners[partition.number] for t in history.targets or () if from_ms <= t.at_ms <= to_ms
    ]
    return frozenset(name_of(owner) for owner in owners if owner)


# --- after the heal


def is_even(sample: Sample, asked: Asked) -> bool:
    """Every partition in the hands that the newest target names, no more than one apart."""
    loads = dict.fromkeys((m for m, able in sample.members.items() if able), 0)
    for member in sample.owners.values():
        loads[member] = loads.get(member, 0) + 1
    return (
        len(sample.locks) == asked.partitions
        and sample.owners == sample.target
        and sample.epochs[0] == sample.epochs[1]
        and (not asked.kind.is_even or max(loads.values()) - min(loads.values()) <= 1)
    )


def seen_after_heal(history: History) -> list[Sample]:
    if history.healed_ms is None:
        return []
    return [sample for sample in history.samples if sample.at_ms >= history.healed_ms]


def recovery_ms(history: History) -> int | None:
    """From the heal until it is even and stays so."""
    since: int | None = None
    for sample in seen_after_heal(history):
        if not is_even(sample, history.asked):
            since = None
        elif since is None:
            since = sample.at_ms
    return None if since is None or history.healed_ms is None else since - history.healed_ms


def is_late(history: History, took_ms: int) -> bool:
    """Beyond the bound by more than this machine held the group up."""
    healed_ms = history.healed_ms or 0
    held_up_ms = history.held_up_ms(healed_ms, healed_ms + took_ms)
    return took_ms - history.asked.bound_ms > held_up_ms


def is_cut_short(history: History, recovered_ms: int | None) -> bool:
    """Not even when nobody looked any more, which this machine alone may have caused."""
    seen = seen_after_heal(history)
    if recovered_ms is not None or not seen or history.healed_ms is None:
        return False
    took_ms = seen[-1].at_ms - history.healed_ms
    return took_ms > history.asked.bound_ms and not is_late(history, took_ms)


def after_heal(history: History, recovered_ms: int | None) -> Iterator[str]:
    seen, bound_ms = seen_after_heal(history), history.asked.bound_ms
    if not seen or history.healed_ms is None:
        return
    if recovered_ms is None:
        if not is_cut_short(history, recovered_ms):
            yield f"not even again {seen[-1].at_ms - history.healed_ms} ms after the heal"
    elif is_late(history, recovered_ms):
        yield f"even again {recovered_ms} ms after the heal, not within {bound_ms}"
    lags = [s.lag for s in seen if s.lag is not None]
    if lags and lags[-1] > 0:
        yield f"{lags[-1]} events were behind at the end"
