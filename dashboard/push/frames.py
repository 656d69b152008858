"""What a page knows of a group, as JSON: whole, or as changes since what was told last.

Pure: snapshot in, values out; knows neither sockets nor SQL. A cell is [number, index of its owner
in `names` or -1, fence, index of its state, since_ms, lag_records]; fences stay below 2^53, so a
JSON number carries them. A partition's replicas are [number, index of its learner or -1, percent or
null, eta_ms or null, 1 when it is ready, indexes of its standbys ...]; without any: no row in a
whole, [number, -1, null, null, 0] in a change.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from assignment.types import Coordination
from dashboard.live.attention import Facts, is_lagging
from dashboard.live.cells import KEPT_MS, Cells
from dashboard.live.group_state import GroupState, judged
from dashboard.live.reported import LiveReplicas
from dashboard.live.snapshot import LiveMember, LiveNumbers, LiveSnapshot
from dashboard.pages import amounts, texts
from dashboard.push.told import Cell, Told, cells_of, check_of, lag_check_of

FRAME_BYTES_MAX = 32 * 1024  # dashboard.md section 3
CELLS_MAX = FRAME_BYTES_MAX // 20  # no cell has fewer bytes
HEAD_BYTES = 2_048  # of a frame, beside cells and members: strip, numbers, epochs
# Above it a browser is told to fetch a snapshot: less work than frame after frame.
RESYNC_CELLS = 2_000
OLD_MS = 1_000  # lag that was read longer ago is shown with its age
ETA_STEP_MS = 1_000  # what is told of a time that is guessed

ReplicaCell = tuple[int, str | None, int | None, int | None, int, *tuple[str, ...]]
Json = dict[str, Any]
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode  # of what is numbers and names, as `json` without spaces


def replicas_of(number: int, row: LiveReplicas) -> ReplicaCell:
    """Whole percents, rounded down: 100 is everything."""
    standbys = (replica.member for replica in row.standbys)
    learner = row.learner
    if learner is None:
        return (number, None, None, None, 0, *standbys)
    percent = None if learner.percent is None else int(learner.percent)
    eta_ms = None if learner.eta_ms is None else -(-learner.eta_ms // ETA_STEP_MS) * ETA_STEP_MS
    return (number, learner.member, percent, eta_ms, int(learner.ready), *standbys)


def all_replicas(cells: Cells) -> dict[int, ReplicaCell]:
    """Those of partitions that have any, by number."""
    return {n: replicas_of(n, cells.replicas[n]) for n in sorted(cells.replicas)}


def member_of(row: LiveMember) -> Json:
    shown = {name: getattr(row, name) for name in ("id", "state", "owned", "leaving")}
    return {**shown, "why": texts.visible(row.why)}


def numbers_of(snapshot: LiveSnapshot) -> Json:
    return {"stream": snapshot.partitions.stream, "partitions": snapshot.numbers.partitions}


def state_of(snapshot: LiveSnapshot) -> tuple[GroupState, str]:
    numbers = snapshot.numbers
    return judged(
        Facts(
            members=numbers.members,
            conflicts=numbers.conflicts,
            unowned=numbers.unowned,
            stalled=numbers.stalled,
            lag_records=_flowing(numbers),
            events_per_second=numbers.events_per_second,
            tick_age_ms=snapshot.tick_age_ms,
            flapping=texts.visible(snapshot.flapping),
            is_rebalancing=snapshot.is_rebalancing,
            max_minus_min=0 if numbers.learning else numbers.max_minus_min or 0,
            is_paused=0 < numbers.partitions <= numbers.paused,
            paused=numbers.paused,
            pausing=numbers.pausing,
            pause=texts.paused_by(snapshot.pause),
        )
    )


def _flowing(n: LiveNumbers) -> int | None:
    """Events behind that are not meant to wait."""
    return None if n.lag_records is None else n.lag_records - n.lag_paused


# --- the header strip: six numbers, the same on every page of a group -----------------------------


def number(text: str, small: str = "", tone: str = "", title: str = "") -> Json:
    return {"text": text, "small": small, "tone": tone, "title": title}


def unknown(why: str) -> Json:
    return number(texts.DASH, "", "unknown", why)


STRIP_LABELS = {
    "members": "Members",
    "owned": "Owned",
    "conflicts": "Conflicts",
    "balance": "Balance degree",
    "rate": "Throughput",
    "lag": "Lag",
}


def strip_of(snapshot: LiveSnapshot) -> dict[str, Json]:
    n = snapshot.numbers
    idle = f"{n.idle} idle" if n.idle else "all able"
    idle = f"{n.leaving} leaving" if n.leaving else idle
    unable = n.members - n.able
    return {
        "members": number(
            texts.grouped(n.members),
            f"{unable} unable" if unable else idle if n.members else "",
            "warn" if unable else "",
            f"{n.members} members, {n.able} able to own"
            + (f", {n.leaving} draining" if n.leaving else "")
            + (f"; idle: {n.partitions} partitions, {n.able} members" if n.idle else ""),
        ),
        "owned": number(
            f"{texts.grouped(n.owned)} / {texts.grouped(n.partitions)}",
            texts.percent(n.owned / n.partitions),
            "" if n.owned == n.partitions else "warn",
            "partitions with a live lock",
        ),
        "conflicts": number(
            texts.grouped(n.conflicts),
            f"{n.unknown} unknown" if n.unknown else "",
            "alarm" if n.conflicts else "",
            "partitions that two members claim",
        ),
        "balance": _balance(snapshot),
        "rate": unknown("no consumer has reported a rate")
        if n.events_per_second is None
        else number(texts.grouped(n.events_per_second), "events/s", "", "sum over able members"),
        "lag": _lag(snapshot),
    }


def _lag(snapshot: LiveSnapshot) -> Json:
    n, age_ms = snapshot.numbers, snapshot.progress_age_ms
    age = amounts.span(-(-age_ms // 1000) * 1000)
    if n.lag_records is None:
        why = "Redis cannot tell how many events were appended"
        never = f"is read in turn: not yet for all of {n.partitions} partitions"
        return unknown(never if age_ms > KEPT_MS else why)
    title = "events appended and not yet committed"
    unit = "records"
    if n.paused:
        unit = "records, paused"
        title += f"; {texts.grouped(n.lag_paused)} of paused partitions"
    return number(
        texts.grouped(n.lag_records),
        f"{unit}, up to {age} old" if age_ms >= OLD_MS else unit,
        "warn" if is_lagging(_flowing(n), n.events_per_second) else "",
        f"{title}; partitions are read in turn, the last one {age} ago"
        if age_ms >= OLD_MS
        else title,
    )


def coordination_of(snapshot: LiveSnapshot) -> Json:
    """Which, and who computes."""
    mode, epoch, member = snapshot.mode
    is_server = mode is Coordination.SERVER
    who = "this dashboard" if is_server else member or "no agent at this moment"
    return {"mode": mode, "text": f"{mode} coordination", "small": f"mode epoch {epoch}, by {who}"}


def _balance(snapshot: LiveSnapshot) -> Json:
    n = snapshot.numbers
    if n.balance_degree is None:
        return unknown("no able member, so nothing to balance")
    title = f"standard deviation of partitions per able member; max − min = {n.max_minus_min}"
    if n.leaving:
        title += "; of those who stay"
    if n.learning:
        title += f"; {n.learning} partitions change hands when their learners are ready"
        return number(texts.grouped(n.balance_degree, 2), f"{n.learning} learning", "", title)
    return number(
        texts.grouped(n.balance_degree, 2),
        f"score {n.score or 0:.0f}",
        "warn" if (n.max_minus_min or 0) > 1 else "",
        title,
    )


UNKNOWN_STRIP = {key: unknown("Redis does not answer") for key in STRIP_LABELS}


# --- whole ----------------------------------------------------------------------------------------


def whole(
    snapshot: LiveSnapshot, hues: Mapping[str, int] | None = None, *, cells: bool = True
) -> Json:
    """Everything a page needs to begin with, or to begin anew. `hues`: member id -> hue, by SQL."""
    colours, partitions = hues or {}, snapshot.partitions
    parts = packed(cells_of(partitions), all_replicas(partitions).values()) if cells else NO_CELLS
    return {
        "group": snapshot.group,
        "at_ms": snapshot.at_ms,
        "lag_age_ms": snapshot.progress_age_ms,
        **_head(snapshot),
        "numbers": numbers_of(snapshot),
        "members": [member_of(m) | {"colour": colours.get(m.id)} for m in snapshot.members],
        **parts,
    }


NO_CELLS: Json = {"names": [], "cells": [], "replicas": []}
NOTHING: Json = {"at_ms": 0, "lag_age_ms": 0, "strip": {}, "numbers": {}, "members": [], **NO_CELLS}


def packed(cells: Iterable[Cell], replicas: Iterable[ReplicaCell]) -> Json:
    names: dict[str, int] = {}

    def index(name: str | None) -> int:
        return -1 if name is None else names.setdefault(name, len(names))

    rows = [[number, index(owner), *rest] for number, owner, *rest in cells]
    replicated = [
        [number, index(learner), percent, eta_ms, ready, *map(index, standbys)]
        for number, learner, percent, eta_ms, ready, *standbys in replicas
    ]
    return {"names": list(names), "cells": rows, "replicas": replicated}


# --- changes --------------------------------------------------------------------------------------


class Changes:
    """What was told against what is; coalesced: a cell that changed twice is told once.

    Ownership goes first, and leaves a quarter of a frame to members; then replicas; lag, which
    changes all the time, takes what room is left, one partition after the other.
    """

    def __init__(self, snapshot: LiveSnapshot) -> None:
        self._next_lag = 0
        self._take(snapshot)
        self.forget()

    def _take(self, snapshot: LiveSnapshot) -> None:
        self.at_ms = snapshot.at_ms
        self._cells = snapshot.partitions
        self._replicas = all_replicas(snapshot.partitions)
        self._members = {m.id: member_of(m) for m in snapshot.members}
        self._head = _head(snapshot)

    def _compare(self) -> None:
        self._owners, lags = self._told.against(self._cells)
        turn = bisect_left(lags, self._next_lag)
        self._lags = lags[turn:] + lags[:turn]
        told = self._told_replicas
        every = self._replicas.keys() | told.keys()
        changed = sorted(n for n in every if self._replicas.get(n) != told.get(n))
        self._placed = sum(self._has_new_roles(n) for n in changed)
        self._replicated = sorted(changed, key=self._has_new_roles, reverse=True)

    def _replica_cell(self, n: int) -> ReplicaCell:
        return self._replicas.get(n, (n, None, None, None, 0))

    def _has_new_roles(self, n: int) -> bool:
        """Whether somebody else learns or keeps it; how far they are may change all the time."""
        cell, told = self._replica_cell(n), self._told_replicas.get(n, (n, None))
        return cell[1] != told[1] or cell[5:] != told[5:]

    def feed(self, snapshot: LiveSnapshot) -> None:
        """A snapshot older than the last one (a read that was overtaken) changes nothing."""
        if snapshot.at_ms >= self.at_ms:
            self._take(snapshot)
            self._compare()

    @property
    def is_too_much(self) -> bool:
        most = max(len(self._owners), self._placed)
        return most > RESYNC_CELLS or len(self._cells) < self._told.size

    def forget(self) -> None:
        """Everybody fetches a snapshot: nothing is left to tell."""
        self._told, self._told_members = Told(self._cells), dict(self._members)
        self._told_replicas = dict(self._replicas)
        self._told_head = self._head
        self._owners, self._lags, self._replicated, self._placed = [], [], [], 0

    @property
    def is_owners_told(self) -> bool:
        return not self._owners

    def marks(self) -> Json:
        """With a frame: how old lag may be that was told; the sum over all cells, once all that is
        in it has been told.
        """
        marks: Json = {"lag_age_ms": max(0, self.at_ms - self._told.lag_read_ms)}
        if not self._owners:
            marks["check"] = check_of(self._cells)
            if not self._lags:
                marks["lag_check"] = lag_check_of(self._cells)
        return marks

    def frame(self) -> Json | None:
        """The next changes, within FRAME_BYTES_MAX as JSON; None when there are none."""
        room = FRAME_BYTES_MAX - HEAD_BYTES
        head = {k: v for k, v in self._head.items() if v != self._told_head.get(k)}
        if "strip" in head:
            told = self._told_head["strip"]
            head["strip"] = {k: v for k, v in head["strip"].items() if v != told.get(k)}
        changed = [m for i, m in self._members.items() if self._told_members.get(i) != m]
        left = [m for m in self._told_members if m not in self._members]
        others = room // 4
        owned = cells_of(self._cells, self._owners[:CELLS_MAX])
        owners, room = _within(owned, room - others, _bytes)
        members, room = _within(changed, room + others, lambda m: len(json.dumps(m)) + 2)
        gone, room = _within(left, room, lambda m: len(json.dumps(m)) + 2)
        replicated, room = _within(map(self._replica_cell, self._replicated), room, _bytes)
        in_turn = self._lags[:CELLS_MAX] if len(owners) == len(self._owners) else []
        lags, room = _within(cells_of(self._cells, in_turn), room, _bytes)
        if not (head or members or gone or owners or replicated or lags):
            return None
        self._next_lag = lags[-1][0] + 1 if lags else self._next_lag
        self._tell(members, gone, owners + lags, replicated)
        frame: Json = {"type": "delta", "at_ms": self.at_ms, **head}
        if members:
            frame["members"] = members
        if gone:
            frame["gone"] = gone
        if owners or replicated or lags:
            parts = packed(owners + lags, replicated)
            frame |= {name: values for name, values in parts.items() if values or name == "names"}
        return frame

    def _tell(
        self, members: list[Json], gone: list[str], cells: list[Cell], replicated: list[ReplicaCell]
    ) -> None:
        self._told_head = self._head
        self._told_members |= {m["id"]: m for m in members}
        for member_id in gone:
            del self._told_members[member_id]
        done = {cell[0] for cell in cells}
        self._told.take(self._cells, sorted(done))
        self._owners = [n for n in self._owners if n not in done]
        self._lags = [n for n in self._lags if n not in done]
        for cell in replicated:
            self._told_replicas.pop(cell[0], None)
            if cell[0] in self._replicas:
                self._told_replicas[cell[0]] = cell
        self._replicated = self._replicated[len(replicated) :]


def _head(snapshot: LiveSnapshot) -> Json:
    state, why = state_of(snapshot)
    return {
        "state": state,
        "why": why,
        "strip": strip_of(snapshot),
        "coordination": coordination_of(snapshot),
        "group_epoch": snapshot.group_epoch,
        "target_epoch": snapshot.target_epoch,
        "incarnation": snapshot.incarnation,
    }


def _bytes(cell: Cell | ReplicaCell) -> int:
    """At most: a name is told once per frame, counted with every cell that has it."""
    return len(_encode(cell)) + 8 * (len(cell) - 4)


def _within(items: Iterable[T], room: int, cost: Callable[[T], int]) -> tuple[list[T], int]:
    """As many of the first items as there is room for, and the room left."""
    chosen: list[T] = []
    for item in items:
        room -= cost(item)
        if room < 0:
            return chosen, 0
        chosen.append(item)
    return chosen, room
