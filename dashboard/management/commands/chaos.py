"""`python3 manage.py chaos --fault NAME`: strikes a group of its own and judges what that did.

Exit 0: every invariant held; 1: one did not; 2: the fault did nothing, or was not healed; 3: bad
input, or an error of the harness.
"""

import argparse
import getpass
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from assignment.errors import InvalidInput
from dashboard.evaluation import stored
from dashboard.evaluation.chaos import asked as asking
from dashboard.evaluation.chaos import matrix
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.comparison import comparison
from dashboard.evaluation.chaos.history import load
from dashboard.evaluation.chaos.judge import judge
from dashboard.evaluation.chaos.result import REPORT, judged, keep, write
from dashboard.evaluation.chaos.run import run
from dashboard.evaluation.judge import FAILED, HELD, VACUOUS, VIOLATED
from dashboard.evaluation.runner import EvaluationCommand, Found, bad_input, tell, why_ended

ADDRESSES = ("REDIS_URL", "DATABASE_URL", "EVENKEEL_REDIS_URL")


class Command(EvaluationCommand):
    help = "Strikes agents, consumers, network, Redis or dashboard of a group of its own."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.error = bad_input  # type: ignore[method-assign]
        parser.epilog = f"faults: {', '.join(asking.FAULTS)}"
        parser.add_argument("what", nargs="?", choices=("run", "matrix", "replay"), default="run")
        parser.add_argument("of", nargs="?", type=Path, help="FILE of a matrix, DIR of a replay")
        parser.add_argument("--out", type=Path, help="folder for the report and all raw data")
        parser.add_argument("--seeds", type=int, default=1, help="of a matrix: so many of each run")
        parser.add_argument(
            "--parallel",
            type=int,
            default=1,
            help="of a matrix: runs at once; they cost each other time",
        )
        parser.add_argument("--evaluation", type=int, help=argparse.SUPPRESS)  # begun by the page
        asking.add_options(parser)

    def ended_early(self, why: str) -> tuple[Found, int]:
        return {"error": why}, FAILED

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        if options["evaluation"] is None:  # a dashboard's own may be anywhere: none is used
            asking.check_loopback([os.environ[n] for n in ADDRESSES if os.environ.get(n)])
        what, of, out = options["what"], options["of"], options["out"]
        if what == "run":
            return self.one(options)
        if of is None:
            raise InvalidInput(f"chaos {what} needs a {'file' if what == 'matrix' else 'folder'}")
        if what == "replay":
            return self.replay(of)
        return self.matrix(matrix.runs_of(of, options["seeds"]), out, options["parallel"])

    def replay(self, folder: Path) -> tuple[Found, int]:
        """Judges what is stored anew."""
        try:
            history = load(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{folder} holds no run: {error}") from error
        tell(f"run it again: {history.asked.command()}")
        verdict = judge(history)
        write(history, verdict, folder)
        return judged(history, verdict)[0], verdict.exit_code

    def matrix(self, wanted: list[Asked], out: Path | None, parallel: int) -> tuple[Found, int]:
        """Goes on with what a matrix in that folder has not run yet."""
        folder = out or Path(tempfile.mkdtemp(prefix="evenkeel-matrix-"))
        rows = matrix.Matrix(wanted, folder, parallel, tell).run()
        (folder / REPORT).write_text(comparison(rows))
        tell(f"the comparison is in {folder}")
        codes = {row["exit"] for row in rows}
        worst = next((code for code in (VIOLATED, FAILED, VACUOUS) if code in codes), HELD)
        return {"runs": rows, "held": worst == HELD}, worst

    def one(self, options: dict[str, Any]) -> tuple[Found, int]:
        """Kept for the page Evaluations, where this installation has one."""
        wanted = asking.asked(options)
        row = stored.of(options["evaluation"]) or stored.begin(wanted, getpass.getuser())
        if row is None:
            return self.judged(wanted, options["out"])
        found, code = {"error": "it ended early"}, FAILED
        try:
            found, code = self.judged(wanted, options["out"] or row.folder)
            if options["out"] is not None:
                shutil.copy(options["out"] / REPORT, row.folder / REPORT)
        except Exception as error:
            found = {"error": why_ended(error)}
            raise
        finally:
            stored.end(row.pk, code, found)
        return found, code

    def judged(self, wanted: Asked, out: Path | None) -> tuple[Found, int]:
        folder = Path(tempfile.mkdtemp(prefix="evenkeel-chaos-"))
        tell(f"seed {wanted.seed}, folder {folder}")
        try:
            history = run(wanted, folder, tell)
            verdict = judge(history)
            if out is not None:
                keep(history, verdict, out)
                shutil.copytree(folder / "logs", out / "logs", dirs_exist_ok=True)
                tell(f"the report is {out / REPORT}")
            answer = judged(history, verdict)[0], verdict.exit_code
        except BaseException:
            leave(folder)
            raise
        if verdict.exit_code == HELD or out is not None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            leave(folder)
        return answer


def leave(folder: Path) -> None:
    """Its logs are evidence; one in which nothing was started has none."""
    if (folder / "logs").is_dir():
        tell(f"the logs are in {folder / 'logs'}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
