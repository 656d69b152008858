"""How what members and the coordinator do grows with their number: light members of many groups
(crowd.py), without faults, at growing sizes, in virtual time.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from assignment import lua
from assignment.member.state import MemberState
from assignment.types import GroupSettings
from dashboard.evaluation.load.member import LightMember
from dashboard.live.scripts import script
from tests.simulation.crowd import CountedRedis, SimGroup, SimWeb, Stage, VirtualLoop

TICK_S, LOOK_S = 1.0, 0.5
JOINING_S = 0.2  # all are started at once, as by a deployment
STEADY_WITHIN_S = 60.0  # virtual, as the next
WINDOW_S = 6.0  # two beats of each member


# --- a run


@dataclass(frozen=True, slots=True)
class Size:
    """Members and groups in all; each member has one partition of its group."""

    members: int
    groups: int


def played(size: Size, seed: int = 1) -> dict[str, Any]:
    """What was done until all was steady ("joining"), and in WINDOW_S after that ("steady")."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_play(loop, size, seed))
    finally:
        loop.close()


async def _play(loop: VirtualLoop, size: Size, seed: int) -> dict[str, Any]:
    server = CountedRedis()
    names = {script(name).sha.encode(): name for name in lua.names()}
    stage = Stage(loop, server, names, server.now_ms, Random(seed))
    groups = [_group(stage, n, size.members // size.groups) for n in range(size.groups)]
    ticking = loop.create_task(_tick(groups))
    began = _taken(stage)
    for group in groups:
        for member in group.members.values():
            loop.call_later(TICK_S + stage.dice.random() * JOINING_S, member.join)
    steady_s = await _steady(loop, groups)
    joined = _taken(stage)
    await asyncio.sleep(WINDOW_S)
    after = _taken(stage)
    ticking.cancel()
    return {
        "members": size.members, "groups": size.groups, "partitions": size.members,
        "steady_virtual_s": steady_s,
        "joining": _between(began, joined), "steady": _between(joined, after),
        "errors": stage.told.count["errors"] + stage.told.count["timeouts"],
    }  # fmt: skip


def _group(stage: Stage, number: int, members: int) -> SimGroup:
    name = f"sim-{number}"
    group = SimGroup(stage, name, GroupSettings(stream=name, partitions=members, stateful=False))
    names = (f"{name}-{n}" for n in range(members))
    group.takes([
        LightMember(
            name=member, web=SimWeb(group), store=group,  # type: ignore[arg-type]
            told=stage.told, dice=stage.dice,
            state=MemberState(settings=GroupSettings(stream=name, partitions=1)), loop=stage.loop,
        )
        for member in names
    ])  # fmt: skip
    return group


async def _tick(groups: Sequence[SimGroup]) -> None:
    while True:
        for group in groups:
            group.tick()
        await asyncio.sleep(TICK_S)


async def _steady(loop: VirtualLoop, groups: Sequence[SimGroup]) -> float | None:
    """None: it never was."""
    while loop.now_s < STEADY_WITHIN_S:
        await asyncio.sleep(LOOK_S)
        if all(m.is_settled for group in groups for m in group.members.values()):
            return round(loop.now_s, 1)
    return None


def _taken(stage: Stage) -> Counter[str]:
    taken = Counter(stage.count)
    taken["commands"] = stage.server.commands
    total_s = time.process_time()
    for who, spent_s in stage.cpu_s.items():
        taken[f"{who}_cpu_us"] = round(spent_s * 1e6)
    taken["members_cpu_us"] = round((total_s - sum(stage.cpu_s.values())) * 1e6)
    return taken


def _between(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in sorted(after)}


# --- how it grows

# Of every count, whichever way it grows: n in "grows as members^n".
IN_GROUPS, IN_ONE_GROUP = "more groups", "one group that grows"
SAID = 1.0
TOLERANCE = 0.2  # rounds are few and whole, and how many there are is chance
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the largest size
LEAST = 2  # groups, or members of a group


def sizes(members: int, groups: int) -> dict[str, list[Size]]:
    """What is played: up to that size by groups, and one group up to ten times what one has."""
    each = members // groups
    by_groups = {max(LEAST, round(groups * step)) for step in STEPS}
    largest = min(members, 10 * each)
    by_members = {max(LEAST, round(largest * step)) for step in STEPS[1:]}
    return {
        IN_GROUPS: [Size(n * each, n) for n in sorted(by_groups)],
        IN_ONE_GROUP: [Size(n, 1) for n in sorted(by_members)],
    }


def grown(members: int, groups: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Of each way to grow the runs, exponents, and what grew faster than said."""
    found: dict[str, Any] = {}
    for way, some in sizes(members, groups).items():
        runs = []
        for size in some:
            say(f"{way}: {size.members} members, {size.groups} groups")
            runs.append(played(size))
        rows = [
            {"phase": phase, "count": name, "exponent": one, "said": said(name)}
            for phase in ("joining", "steady")
            for name, one in exponents(runs, phase).items()
        ]
        found[way] = {"runs": runs, "rows": rows, "faster": list(_faster(runs, rows))}
    return found


def said(name: str) -> float | None:
    """None: CPU time is told, and judged by nobody: other work on the machine is in it."""
    return None if name.endswith("cpu_us") else SAID


def _faster(runs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        if row["said"] is not None and row["exponent"] > row["said"] + TOLERANCE:
            yield f"{row['count']} while {row['phase']}: {row['exponent']}, said {row['said']}"
    for run in runs:
        if run["errors"] or run["steady_virtual_s"] is None:
            yield f"{run['members']} members of {run['groups']} groups were never steady"


def exponents(runs: Sequence[Mapping[str, Any]], phase: str) -> dict[str, float]:
    """Of each count: n in "grows as members^n", by least squares over the runs. What one of them
    has none of is left out.
    """
    found = {}
    for name in sorted(set.intersection(*(set(run[phase]) for run in runs))):
        if all(run[phase][name] > 0 for run in runs):
            xs = [math.log(run["members"]) for run in runs]
            ys = [math.log(run[phase][name]) for run in runs]
            found[name] = round(_slope(xs, ys), 2)
    return found


def _slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - x_mean) ** 2 for x in xs)
