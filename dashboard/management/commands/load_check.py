"""`python3 manage.py load_check --json`: a system of its own under many light members.

Exit 0: every aim for a system of that size was met; 1: one was missed, or the run failed; 3: what
was asked for cannot be played.
"""

from typing import Any

from django.core.management.base import CommandParser

from assignment.names import PARTITIONS_MAX
from dashboard.evaluation.judge import VIOLATED
from dashboard.evaluation.load import table
from dashboard.evaluation.load.aims import MEMBERS_A_WEB, Sizes, refusal_of, webs_for
from dashboard.evaluation.load.check import check, files_limit
from dashboard.evaluation.runner import EvaluationCommand, Found, add_seed, bad_input, told
from dashboard.management.arguments import whole

SIZES = {  # option -> least, most, default, what it is
    "members": (0, 50_000, 100, "light members in all"),
    "groups": (1, 10_000, 1, "groups, over which they are dealt"),
    "partitions": (1, 1_000_000, None, "partitions in all, default two a member and one a group"),
    "processes": (1, 16, 1, "processes that play the members"),
    "seconds": (1, 3_600, 30, "of the window that is measured"),
    "webs": (
        *(1, 16, None),
        f"web processes of the system, at one address, default one for {MEMBERS_A_WEB:,} members",
    ),
    "workers": (1, 16, 1, "Celery workers of the system"),
}

OPTIONS = ("kill_member", "restart_web", "postgres", "hand_over")


class Command(EvaluationCommand):
    help = "Plays members that join, beat, acquire and renew, and measures what the system costs."
    failed = VIOLATED

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.error = bad_input  # type: ignore[method-assign]
        for name, (least, most, default, of) in SIZES.items():
            more = "" if default is None else f", default {default}"
            parser.add_argument(
                f"--{name}", type=whole(least, most), default=default, help=f"{of}{more}"
            )
        parser.add_argument(
            "--kill-member",
            action="store_true",
            help="afterwards kill one of the last group: how long until others have its partitions",
        )
        parser.add_argument(
            "--restart-web",
            action="store_true",
            help="afterwards kill a web process, which is started anew: what moves by that",
        )
        parser.add_argument(
            "--postgres",
            action="store_true",
            help="the system's database is a PostgreSQL of its own (a wheel), not SQLite",
        )
        parser.add_argument(
            "--table",
            action="store_true",
            help="instead the same on SQLite and PostgreSQL, with one web process and with two",
        )
        parser.add_argument(
            "--hand-over",
            type=whole(0, PARTITIONS_MAX),
            default=0,
            help="afterwards so many partitions of one more group, with 100 members, change hands:"
            " how far apart the ticks are meanwhile",
        )
        add_seed(parser, "of when members join and try again")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        given = {name: options[name] for name in SIZES}
        if given["partitions"] is None:
            given["partitions"] = max(2 * given["members"], given["groups"])
        if given["webs"] is None:
            given["webs"] = 1 if options["table"] else webs_for(given["members"])
        given |= {name: options[name] for name in OPTIONS}
        asked = Sizes(**given)
        if why := refusal_of(asked, files_limit()):
            bad_input(why)
        if options["table"] and (asked.postgres or asked.webs > 1):
            bad_input("--table has every database and number of web processes: name none")
        if options["table"]:
            found_in_all = [*table.rows(asked, options["seed"])]
            return told(
                {"rows": found_in_all}, [text for row in found_in_all for text in row["missed"]]
            )
        found, missed = check(asked, options["seed"])
        return told({**found, "missed": missed}, missed)

    def as_text(self, found: Found) -> str:
        return table.as_markdown(found["rows"]) if "rows" in found else super().as_text(found)
