"""What a run is asked for, and which of the aims for a system of this size it missed. Pure."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assignment import sizes
from assignment.names import PARTITIONS_MAX
from dashboard.evaluation.load.hints import MEMBERS_AN_EAR

Found = Mapping[str, Any]
# The largest sizes that the aims are for, on two cores with the client.
MEMBERS_AIMED, PARTITIONS_AIMED = 10_000, 20_000
GROUPS_BEATING_AIMED, GROUPS_QUIET_AIMED = 1_000, 5_000
MEMBERS_A_GROUP = 5  # of many groups: in each
COSTED_MEMBERS = 1_000  # of fewer, what the web process costs when idle is most of it
TIMEOUTS = ERRORS = MOVES = 0
WEB_US, P99_MS, TICK_GAP_MS, STEADY_S = 200.0, 250.0, 1_500, 30.0
QUIET_CORES, MANY_GROUPS_CORES = 0.1, 0.5
HAND_OVER_S = 120.0  # no aim of its own: it has to come to its end
REPLACED_S = 3.0  # after the session's end
# Whose heartbeats take a third of a core. While twice as many join, one process would want more of
# two cores than it gets beside the worker, Redis and the client.
MEMBERS_A_WEB = 5_000
FILES_BESIDE = 50  # of the interpreter, and connections that are being made anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """`partitions`: in all. `processes`: of the client. `seconds`: of the measured window.
    `webs`, `workers`: processes of the system; `postgres`: its database is one, else SQLite.
    `hand_over`: partitions of one more group, which change hands afterwards; 0: there is none.
    """

    members: int
    groups: int
    partitions: int
    processes: int
    seconds: int
    restart_web: bool = False
    kill_member: bool = False
    webs: int = 1
    workers: int = 1
    postgres: bool = False
    hand_over: int = 0

    @property
    def by_group(self) -> dict[str, int]:
        """Partitions of each group, as even as can be."""
        each, more = divmod(self.partitions, self.groups)
        width = len(str(self.groups))
        return {f"load-{n:0{width}}": each + (n < more) for n in range(self.groups)}

    @property
    def members_a_group(self) -> int:
        """Of the largest."""
        return math.ceil(self.members / self.groups)

    @property
    def is_aimed(self) -> bool:
        """Whether there are aims for a system as large as this."""
        groups = GROUPS_BEATING_AIMED if self.members else GROUPS_QUIET_AIMED
        return (
            self.members <= MEMBERS_AIMED
            and self.groups <= groups
            and self.partitions <= max(PARTITIONS_AIMED, self.groups)
        )


def webs_for(members: int) -> int:
    """As many web processes as are enough."""
    return max(1, math.ceil(members / MEMBERS_A_WEB))


def refusal_of(asked: Sizes, files: int) -> str:
    """Why that cannot be played, in one sentence; "" when it can. `files`: how many a process may
    open.
    """
    return next((why for is_so, why in _refusals(asked, files) if is_so), "")


def _refusals(asked: Sizes, files: int) -> Iterator[tuple[bool, str]]:
    members, groups, each = asked.members, asked.groups, asked.partitions // asked.groups
    of_groups, of_members = f"in {groups} groups", f"--members {members}"
    yield not each, f"--partitions {asked.partitions} is less than one for each {of_groups}"
    yield (
        asked.partitions > PARTITIONS_MAX * groups,
        f"--partitions {asked.partitions} is more than {PARTITIONS_MAX} for each {of_groups}",
    )
    most = sizes.members_max(each)
    yield (
        asked.members_a_group > most,
        f"{of_members} is more than {most} for each {of_groups} of {each} partitions",
    )
    yield (
        asked.processes > max(1, members),
        f"--processes {asked.processes} is more than there are members, {members}",
    )
    each_plays = math.ceil(members / asked.processes)
    needed = each_plays + each_plays // MEMBERS_AN_EAR + 2 * groups + FILES_BESIDE
    yield (
        members > 0 and needed > files,
        f"--processes {asked.processes} is too few: each would open {needed} files of {files}",
    )
    yield (
        not members and bool(asked.restart_web or asked.kill_member or asked.hand_over),
        f"{of_members} leaves nobody for --restart-web, --kill-member and --hand-over",
    )
    yield (
        asked.kill_member and members < 2 * groups,
        f"{of_members} is less than two for each {of_groups}, which --kill-member takes",
    )


def missed(found: Found, asked: Sizes, session_s: float) -> list[str]:
    """The aims that `found` misses, each with what it is and what it should be."""
    if not asked.is_aimed:
        return []
    return [
        f"{name} is {value}, should be {limit}"
        for name, value, limit, is_met in _judged(found, asked, session_s)
        if not is_met
    ]


def _judged(found: Found, asked: Sizes, session_s: float) -> Iterator[tuple[str, Any, str, bool]]:
    def below(name: str, limit: float) -> tuple[str, Any, str, bool]:
        value = found[name]
        return name, value, f"below {limit:g}", value is not None and value < limit

    def none(name: str) -> tuple[str, Any, str, bool]:
        return name, found[name], "0", found[name] == 0

    cores = found["cpu_cores"]
    in_all = round(sum(cores.values()) - cores["client"], 3)
    yield below("tick_gap_max_ms", TICK_GAP_MS)
    if not asked.members:
        yield "cpu_cores in all", in_all, f"below {QUIET_CORES:g}", in_all < QUIET_CORES
        return
    yield none("timeouts")
    yield none("errors")
    yield none("differing")
    yield below("p99_ms", P99_MS)
    if asked.members >= COSTED_MEMBERS:
        yield below("web_us_per_beat", WEB_US)
    if asked.groups >= GROUPS_BEATING_AIMED and asked.members <= MEMBERS_A_GROUP * asked.groups:
        limit = MANY_GROUPS_CORES
        yield "cpu_cores in all", in_all, f"below {limit:g}", in_all < limit
        steady_s = found["join_steady_s"]  # how soon is no aim: each group has its own rebalance
        yield "join_steady_s", steady_s, "reached", steady_s is not None
    else:
        yield below("join_steady_s", STEADY_S)
    if asked.restart_web:
        yield none("restarted_web_moves")
    if asked.kill_member:
        yield below("replaced_s", session_s + REPLACED_S)
    if asked.hand_over:
        yield below("hand_over_s", HAND_OVER_S)
        yield below("hand_over_tick_gap_ms", TICK_GAP_MS)
