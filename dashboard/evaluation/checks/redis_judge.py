"""What a fault of Redis left behind, judged: moves, history, bounds. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

from assignment.scripts.lock_events import LockEvent
from assignment.types import GroupSettings, Partition
from dashboard.evaluation.figures import ENDS, bound_ms, moves, name_of
from dashboard.evaluation.judge import FAILED, HELD, VIOLATED, late, not_zero

LOSING = ("failover", "lost_writes", "wipe")  # a new incarnation waits for one lease, then restores
ENDS_ALL = "up_killed"


def bound_of(name: str, timings: GroupSettings, restore_ms: float = 0.0) -> int:
    return bound_ms(timings, 1, restore_ms) if name in LOSING else bound_ms(timings)


# --- moves and history


def moves_without_cause(
    events: Iterable[LockEvent],
    owners: Mapping[Partition, tuple[str, int]],
    hurt: Collection[str],
) -> int:
    """How often a partition went from one member to another although neither was hurt.

    `owners`: member and fence of each when the step began. `hurt`: names of those that were killed,
    or started by the step.
    """
    return sum(
        not {name_of(before.member_id), name_of(after.member_id)} & set(hurt)
        for before, after in moves(granted(events, owners))
    )


def granted(
    events: Iterable[LockEvent], owners: Mapping[Partition, tuple[str, int]]
) -> list[LockEvent]:
    """The grants of these owners and those above them, each once, in the order of the fences."""
    grants = {(p, fence): grant_of(p, member, fence) for p, (member, fence) in owners.items()}
    for event in events:
        if event.kind == "acquired" and event.fence > owners.get(event.partition, ("", 0))[1]:
            grants[event.partition, event.fence] = event
    return [grants[key] for key in sorted(grants)]


def grant_of(partition: Partition, member_id: str, fence: int) -> LockEvent:
    return LockEvent(
        entry_id="",
        seq=0,
        kind="acquired",
        partition=partition,
        member_id=member_id,
        fence=fence,
        at_ms=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A row of history."""

    partition: str
    member: str
    fence: int
    is_open: bool


class Gap(NamedTuple):
    """A gap that history shows: `at_ms` of the first event behind it; `lost` None: not known."""

    at_ms: int
    lost: int | None


def missing_in_history(
    events: Collection[LockEvent],
    tenures: Iterable[Tenure],
    locks: Mapping[Partition, tuple[str, int]],
    gaps: Iterable[Gap],
) -> list[str]:
    """What happened at the locks and is neither in history nor covered by one of its `gaps`; then
    locks whose tenure history does not show as going on, and tenures that go on without a lock.
    """
    rows = {(row.partition, row.fence): row for row in tenures}
    missing = {e: text for e in events if (text := not_shown(e, rows.get(key_of(e))))}
    covered = {e for gap in gaps for e in covered_by(gap, events, missing)}
    grants = {key_of(e) for e in covered if e.kind == "acquired"}  # of these no row is begun
    found = [text for e, text in missing.items() if e not in covered and key_of(e) not in grants]
    open_rows = {(p, row.member, f) for (p, f), row in rows.items() if row.is_open}
    held = {(str(p), member, fence) for p, (member, fence) in locks.items()}
    found += [f"{p} goes on with {m}/{f} without a lock" for p, m, f in sorted(open_rows - held)]
    found += [f"{p} is held by {m}/{f}, unseen" for p, m, f in sorted(held - open_rows)]
    return found


def key_of(event: LockEvent) -> tuple[str, int]:
    return str(event.partition), event.fence


def not_shown(event: LockEvent, row: Tenure | None) -> str:
    """What history lacks of it, "" when nothing."""
    if row is None or row.member != event.member_id:
        return f"{event.partition} {event.kind} {event.member_id}/{event.fence}"
    if event.kind in ENDS and row.is_open:
        return f"end of {event.partition} {event.member_id}/{event.fence}"
    return ""


def covered_by(
    gap: Gap, events: Iterable[LockEvent], missing: Collection[LockEvent]
) -> list[LockEvent]:
    """Those that came just before the gap's end, as many as it says, none from before the last
    grant that history shows: only a grant is proof, an end may have been put in its place.
    """
    before = sorted({e for e in events if e.at_ms <= gap.at_ms}, key=lambda e: (e.at_ms, e.seq))
    while before and before[-1].at_ms == gap.at_ms and before[-1] not in missing:
        before.pop()  # behind the gap
    found = list(takewhile(lambda e: e.kind != "acquired" or e in missing, reversed(before)))
    return found[: gap.lost]


# --- the verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the check's answer. `problems`: what beside the numbers is wrong."""

    name: str
    how: str
    recovered_ms: int | None
    bound_ms: int
    lost: int
    doubled: int
    destroyed: int | None  # None: the product said nothing of it
    destroyed_counted: int
    moves_without_cause: int
    agents_ended: int
    history_complete: bool
    problems: tuple[str, ...] = ()
    error: str = ""  # of the check: nothing could be judged


def not_judged(name: str, why: str) -> Step:
    return Step(
        name=name,
        how="",
        recovered_ms=None,
        bound_ms=0,
        lost=0,
        doubled=0,
        destroyed=None,
        destroyed_counted=0,
        moves_without_cause=0,
        agents_ended=0,
        history_complete=False,
        error=why,
    )


def broken(name: str, how: str, problems: Sequence[str]) -> Step:
    """One that struck and did not come to its end."""
    return replace(not_judged(name, ""), how=how, problems=tuple(problems))


def faults_of(step: Step) -> list[str]:
    """What is wrong with a step, a sentence each; empty when it held."""
    if step.error:
        return [f"{step.name}: not judged: {step.error}"]
    wrong = [*step.problems, *late(step.recovered_ms, step.bound_ms)]
    counts = {"lost": step.lost, "doubled": step.doubled, "moves": step.moves_without_cause}
    if step.name != ENDS_ALL:
        counts["agents_ended"] = step.agents_ended
    wrong += not_zero(counts)
    if (step.destroyed or 0) != step.destroyed_counted:
        said = "nothing" if step.destroyed is None else step.destroyed
        wrong.append(f"destroyed {said} was reported, {step.destroyed_counted} were counted")
    if not step.history_complete:
        wrong.append("history is not complete")
    return [f"{step.name}: {text}" for text in wrong]


def exit_code(steps: Sequence[Step], why: str = "") -> int:
    """What did not hold comes before what could not be judged; `why` the check itself ended."""
    if any(faults_of(step) for step in steps if not step.error):
        return VIOLATED
    if why or not steps or any(step.error for step in steps):
        return FAILED
    return HELD


def reported(audit: Iterable[Mapping[str, Any]], producer: str) -> int | None:
    """Events that the product called destroyed; None: it said no number.

    Of each partition two say a part of it. The audit: what had been applied, as far as was known,
    and up to which total a snapshot was put back. A `producer`: what it had acknowledged and is
    gone from the stream, of which the snapshot's effects are not destroyed.
    """
    applied, put_back, gone = Counter[str](), Counter[str](), Counter[str]()
    for row in audit:
        for partition, found in (row["after"] or {}).get("partitions", {}).items():
            applied[partition] += found["destroyed"] or 0  # None: not known
            put_back[partition] += found["total"]
    for events, partition in re.findall(r"(\d+) acknowledged events of (\S+) are gone", producer):
        gone[partition] += int(events)
    if not applied.keys() | gone.keys():
        return None
    return sum(max(applied[p], gone[p] - put_back[p]) for p in applied.keys() | gone.keys())
