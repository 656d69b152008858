"""Runs of load_check whose costs set the constants of the formulas, or are compared with them."""

import math
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from assignment.errors import EvenkeelError
from dashboard.demo.parts import ROOT
from dashboard.evaluation.capacity.formulas import Load, Measured
from dashboard.evaluation.load.aims import Sizes
from dashboard.evaluation.load.check import check
from dashboard.evaluation.load.hints import MEMBERS_AN_EAR
from dashboard.evaluation.system import TIMINGS
from dashboard.management.arguments import say

Found = Mapping[str, Any]
Size = tuple[int, int, int]  # members, groups, partitions
# Each differs from the others in what it has most of, so that terms can be told apart.
SIZES: Sequence[Size] = (
    (2, 1, 2), (0, 250, 250), (100, 1, 4_000), (1_200, 4, 1_200),
    (300, 150, 300), (400, 10, 8_000), (600, 60, 1_200),
)  # fmt: skip
# One of them twice: how far apart two runs of one size are.
MEASURED_SIZES = (*SIZES, SIZES[5])
# How fast the machine is now is told by these once more: one with many beats, one with many locks.
PACE_SIZES = (SIZES[3], SIZES[5])
# Between those and beyond them.
OTHER_SIZES: Sequence[Size] = ((800, 40, 4_000), (1_500, 20, 6_000))
SECONDS = 15
TRIES = 2  # something small may come by
# Of a core: load_check's own process takes some hundredths, and a quiet machine as much.
OTHERS_CORES = 0.3
BEAT_S = TIMINGS.heartbeat_ms / 1e3
NAMES = (
    *("members", "groups", "partitions", "moves", "join_steady_s", "timeouts", "errors"),
    *("others_cores", "costs"),
)


class Starved(EvenkeelError):
    """What was measured is no measurement: it is not written down."""


def run(size: Size, seed: int, others_cores: float = OTHERS_CORES) -> dict[str, Any]:
    """What load_check found at that size. Raises Starved, TreeFailed, Stopped."""
    members, groups, partitions = size
    sizes = Sizes(
        members=members, groups=groups, partitions=partitions, processes=1, seconds=SECONDS
    )
    why = ""
    for _ in range(TRIES):
        say(f"{members} members, {groups} groups, {partitions} partitions")
        found, _ = check(sizes, seed)
        if not (why := starved(found, others_cores)):
            return {name: found[name] for name in NAMES}
        say(f"not counted: {why}")
    raise Starved(f"{why}; nothing was written: repeat it on a machine that does nothing else")


def starved(run: Found, others_cores: float) -> str:
    """Why a run is no measurement; "": it is one. What did not run took no CPU."""
    size = f"at {run['members']} members of {run['groups']} groups"
    if run["others_cores"] > others_cores:
        taken = f"other work took {run['others_cores']:.2f} cores of the machine {size}"
        return f"{taken}, {others_cores:g} is borne"
    if run["members"] and run["join_steady_s"] is None:
        return f"joining was never steady {size}"
    if trouble := run["timeouts"] + run["errors"]:
        return f"{trouble} answers were late or wrong {size}"
    return ""


def steady(run: Found) -> Measured:
    """What it costs while nothing changes: the rates between two readings, and the last memory."""
    before, after = run["costs"]["steady"], run["costs"]["end"]
    seconds = after["at_s"] - before["at_s"]
    figures = {
        f"{part}_cores": (after["cpu_s"][part] - before["cpu_s"][part]) / seconds
        for part in after["cpu_s"]
    }
    figures["redis_ops"] = (after["redis_commands"] - before["redis_commands"]) / seconds
    figures |= {f"{part}_mib": after["mib"][part] for part in ("web", "worker")}
    figures["redis_mib"] = after["redis_mib"]
    samples = (after["samples"] - before["samples"]) / (after["began_s"] - before["began_s"])
    return load_of(run, samples=samples), figures


def changes(run: Found) -> Measured:
    """What joining cost beyond that, and by how much the database grew."""
    costs = run["costs"]
    end, before = costs["end"], costs.get("quiet", costs["steady"])
    figures = _joining(run) if "quiet" in costs else {}
    figures["database_bytes"] = end["database_bytes"] - before["database_bytes"]
    figures["database_rows"] = end["rows"] - before["rows"]
    happened = {name: end[name] - before[name] for name in ("rebalances", "samples")}
    grants = run["partitions"] + run["moves"] if run["members"] else 0
    return load_of(run, joins=run["members"], grants=grants, **happened), figures


def _joining(run: Found) -> dict[str, float]:
    before, after = (run["costs"][name] for name in ("quiet", "steady"))
    seconds, (_, rates) = after["at_s"] - before["at_s"], steady(run)
    return {
        f"{part}_change_s": spent - before["cpu_s"][part] - rates[f"{part}_cores"] * seconds
        for part, spent in after["cpu_s"].items()
    }


def load_of(run: Found, **happened: Any) -> Load:
    return Load(
        members=run["members"], groups=run["groups"], partitions=run["partitions"],
        with_members=min(run["groups"], run["members"]), beat_s=BEAT_S, **happened,
    )  # fmt: skip


def measured(runs: Sequence[Found]) -> list[Measured]:
    """A size counts once: what repeats it tells only how far apart two runs are."""
    first = {(run["members"], run["groups"], run["partitions"]): run for run in reversed(runs)}
    return [one for run in first.values() for one in (steady(run), changes(run))]


def own_clients(run: Found) -> int:
    """Connections to Redis of load_check itself: one of each group's members and one of each ear,
    and its watch.
    """
    members: int = run["members"]
    groups: int = min(run["groups"], members)
    each, more = divmod(members, groups or 1)
    ears = (math.ceil((each + (n < more)) / MEMBERS_AN_EAR) for n in range(groups))
    return 1 + groups + sum(ears)


def commit() -> str | None:
    """Of the checkout, with "+" where something is not committed; None: it is none."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or None
