"""The verdict on the effects of one run: every event once, in its order, with the state it made;
and what a Redis that forgot may have destroyed of it. Pure.
"""

from collections.abc import Iterator, Sequence

from assignment.wire import unpack_changes, unpack_ids
from dashboard.evaluation.chaos.asked import LOSING
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.judge import Appended, Commits, Effects, Stream, effects, joined

WRITE_MS = 2_000  # a Redis on a slow disk answers before it has written, for so long at most


def judged_effects(history: History) -> tuple[Effects, list[str]]:
    """Lost and doubled by event; what of acknowledged events is gone with a Redis that forgot."""
    asked, now, whole = history.asked, history.eras[-1], joined(*history.eras)
    left = now.ids() if asked.loses_writes else None
    # What was appended and is not committed yet at the end is behind, which is told as lag.
    behind = now.ids() - now.ids(now.offsets)
    found = effects(history.acknowledged, whole, left).without(behind)
    wrong = [f"event {event} was acknowledged and has no effect" for event in found.lost]
    wrong += [f"event {event} has more than one effect" for event in found.doubled]
    wrong += destroyed_early(history, found.destroyed)
    if not asked.forgets:  # what Redis holds is one chain
        wrong += found.faults
        if asked.consumer == "light":  # Spark's ids come by key
            wrong += disordered(whole.commits, whole.stream)
        wrong += wrong_values(whole.commits)
    return found, wrong


def destroyed_early(history: History, destroyed: Sequence[int]) -> Iterator[str]:
    """A Redis that lost its last writes may destroy only these: events that were stored since the
    fault began, or just before. One that no Redis held was stored no earlier than those of lower
    ids: its producer numbers them in their order. Of a wipe nothing comes back, whatever its age.
    """
    struck = [f.at_ms for f in history.faults if f.name in LOSING]
    names = {fault.name for fault in history.faults}
    if not struck or names & {"redis-wipe", "clock-back"}:
        return
    since_ms, latest_ms = min(struck) - WRITE_MS, 0
    stored_ms = {
        event: one.offset.ms
        for era in history.eras
        for entries in era.stream.values()
        for one in entries
        for event in one.ids
    }
    gone = frozenset(destroyed)
    for event in sorted(gone | stored_ms.keys()):
        latest_ms = max(latest_ms, stored_ms.get(event, 0))
        if event in gone and (at_ms := stored_ms.get(event, latest_ms)) < since_ms:
            older = f"{min(struck) - at_ms} ms older than the fault"
            yield f"event {event} is destroyed, {older if at_ms else 'and no Redis has held it'}"


def disordered(commits: Commits, stream: Stream) -> Iterator[str]:
    """The events of a commit are those of its range, in the order of the stream."""
    for partition, entries in commits.items():
        appended: Sequence[Appended] = stream.get(partition, ())
        at = 0
        for entry in entries:
            ids: list[int] = []
            while at < len(appended) and appended[at].offset <= entry.to_offset:
                ids += appended[at].ids
                at += 1
            done = unpack_ids(entry.ids)
            if done != ids and sorted(done) == sorted(ids):
                part = f"({entry.from_offset}, {entry.to_offset}]"
                yield f"{partition}: the effects in {part} are not in the order of its events"


def wrong_values(commits: Commits) -> Iterator[str]:
    """The state that commits came to counts each event once: an owner that began from an older
    state than the one that was committed shows here.
    """
    for partition, entries in commits.items():
        state: dict[str, int] = {}
        for entry in entries:
            for key, value in unpack_changes(entry.changes).items():
                state[key] = int((value or {}).get("events", 0))
            if (counted := sum(state.values())) != entry.total:
                yield (
                    f"{partition}: the state at {entry.to_offset} counts {counted} events of"
                    f" {entry.total}: its owner did not begin where the one before had ended"
                )
                break
