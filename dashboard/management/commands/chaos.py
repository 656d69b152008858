"""`python3 manage.py chaos --fault NAME`: strikes a group of its own and judges what that did.

Exit 0: every invariant held; 1: one did not; 2: the fault did nothing, or was not healed; 3: bad
input, or an error of the harness.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandParser

from assignment.errors import EvenkeelError
from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation.chaos import asked as asking
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.history import save
from dashboard.evaluation.chaos.judge import FAILED, judge
from dashboard.evaluation.chaos.result import as_text, result
from dashboard.evaluation.chaos.run import run
from dashboard.management.commands.up import say

BEGAN_S = time.monotonic()
ADDRESSES = ("REDIS_URL", "DATABASE_URL", "EVENKEEL_URL", "EVENKEEL_REDIS_URL")


def tell(line: str) -> None:
    say(f"{time.monotonic() - BEGAN_S:6.1f} s  {line}")


def bad_input(message: str) -> NoReturn:
    say(f"evenkeel: {message}")
    sys.exit(FAILED)


class Command(BaseCommand):
    help = "Strikes agents, consumers, network, Redis or dashboard of a group of its own."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.error = bad_input  # type: ignore[method-assign]
        parser.add_argument("--json", action="store_true", help="one JSON object")
        asking.add_options(parser)

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            asking.check_loopback([os.environ[n] for n in ADDRESSES if os.environ.get(n)])
            found, code = self.one(asking.asked(options), options["out"])
        except Stopped:
            found, code = {"error": "asked to end"}, FAILED
        except (EvenkeelError, Refused, TreeFailed, OSError) as error:
            found, code = {"error": str(error)}, FAILED
        if "error" in found:
            say(f"evenkeel: {found['error']}")
        self.stdout.write(json.dumps(found) if options["json"] else as_text(found))
        sys.exit(code)

    def one(self, wanted: Asked, out: Path | None) -> tuple[dict[str, Any], int]:
        folder = Path(tempfile.mkdtemp(prefix="evenkeel-chaos-"))
        tell(f"seed {wanted.seed}, folder {folder}")
        history = run(wanted, folder, tell)
        verdict = judge(history)
        found = result(history, verdict)
        if out is not None:
            save(history, out)
            (out / "result.json").write_text(json.dumps(found, indent=2))
            shutil.copytree(folder / "logs", out / "logs", dirs_exist_ok=True)
        if verdict.exit_code == 0 or out is not None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"the logs are in {folder / 'logs'}")
        return found, verdict.exit_code
