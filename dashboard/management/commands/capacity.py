"""`python3 manage.py capacity --agents 50000 --groups 2000 --partitions 1000000`: the machines for
that, by formulas whose constants were measured, and which limit is met first.

--measure sets the constants anew; --check compares predictions with runs that did not set them.
Runs beside which other work took too much are refused: nothing is written then.
Exit 0: told, or within the tolerance; 1: a prediction was not, or a run failed or was refused;
3: bad input.
"""

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser

from assignment.errors import InvalidInput
from dashboard.evaluation.capacity import measuring, pages, sizing, stored
from dashboard.evaluation.capacity.measuring import Size
from dashboard.evaluation.capacity.sizing import Asked
from dashboard.evaluation.judge import VIOLATED
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, bad_input, told
from dashboard.evaluation.system import TIMINGS
from dashboard.management.arguments import not_negative, whole

SIZES = {  # option -> least, most, default, what it is
    "agents": (0, 10_000_000, 1_000, "agents in all"),
    "groups": (1, 1_000_000, 10, "groups"),
    "partitions": (1, 100_000_000, 10_000, "partitions in all"),
    "empty_groups": (0, 1_000_000, 0, "of the groups, those without members"),
    "events": (0, 100_000_000, 0, "that are appended and applied in a second, in all"),
    "latency_goal_ms": (0, 600_000, TIMINGS.latency_goal_ms, "of the groups"),
    "cores": (1, 1_024, 4, "of a machine"),
    "memory_gib": (1, 65_536, 16, "of a machine"),
    "moved_percent": (0, 100, 10, "of a group's partitions, in a rebalance"),
}
REBALANCES_A_DAY = 24.0


class Command(EvaluationCommand):
    help = "Says what machines a load takes and which limit is met first."
    failed = VIOLATED

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.error = bad_input  # type: ignore[method-assign]
        for name, (least, most, default, of) in SIZES.items():
            option, text = f"--{name.replace('_', '-')}", f"{of}, default {default}"
            parser.add_argument(option, type=whole(least, most), default=default, help=text)
        parser.add_argument(
            "--rebalances-a-day", type=not_negative, default=REBALANCES_A_DAY,
            help=f"of each group, default {REBALANCES_A_DAY:g}",
        )  # fmt: skip
        does = parser.add_mutually_exclusive_group()
        for option, text in (
            ("--measure", "set the constants anew, by runs of load_check; some 6 minutes"),
            ("--check", "compare predictions with load_check at two other sizes; 3 minutes"),
            ("--write", "make the tables and pictures of docs/capacity.md anew"),
        ):
            does.add_argument(option, action="store_true", help=text)
        parser.add_argument(
            "--others-cores", type=not_negative, default=measuring.OTHERS_CORES,
            help="that other work may take beside a run, else it is refused;"
            f" default {measuring.OTHERS_CORES:g}",
        )  # fmt: skip
        add_seed(parser, "of the runs")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        if options["measure"]:
            return self._measure(options)
        if options["write"]:
            return told({"written": pages.write(stored.kept())}, ())
        content = self._content()
        if options["check"]:
            return self._check(content, options)
        asked = asked_of(options)
        if why := sizing.refusal_of(asked):
            bad_input(why)
        return sizing.sized(content["constants"], stored.each_of(content), asked), 0

    def _content(self) -> dict[str, Any]:
        try:
            return stored.read()
        except InvalidInput as error:
            bad_input(str(error))

    def _measure(self, options: dict[str, Any]) -> tuple[Found, int]:
        runs = _runs(measuring.MEASURED_SIZES, options)
        content = stored.made(runs, stored.benched())
        written(content)
        names = ("day", "commit", "benches", "constants", "fits", "repeats")
        return told({name: content[name] for name in names}, ())

    def _check(self, content: Found, options: dict[str, Any]) -> tuple[Found, int]:
        before, after = measuring.PACE_SIZES  # the pace may change meanwhile
        first, *runs, last = _runs((before, *measuring.OTHER_SIZES, after), options)
        checked = stored.checked(content, runs, (first, last))
        missed = stored.missed(checked)
        written({**content, "checked": checked})
        found = {**checked, "constants_of": content["commit"], "missed": missed}
        return told(found, missed)

    def as_text(self, found: Found) -> str:
        return pages.as_text(found) if "needs" in found else super().as_text(found)


def _runs(sizes: Sequence[Size], options: dict[str, Any]) -> list[dict[str, Any]]:
    return [measuring.run(size, options["seed"], options["others_cores"]) for size in sizes]


def written(content: Found) -> None:
    """With the page that shows it."""
    stored.write(content)
    pages.write(content)


def asked_of(options: dict[str, Any]) -> Asked:
    return Asked(
        agents=options["agents"], groups=options["groups"], partitions=options["partitions"],
        beat_s=measuring.BEAT_S, rebalances_a_day=options["rebalances_a_day"],
        moved=options["moved_percent"] / 100, cores=options["cores"],
        memory_gib=options["memory_gib"], empty_groups=options["empty_groups"],
        events=options["events"], goal_s=options["latency_goal_ms"] / 1e3,
    )  # fmt: skip
