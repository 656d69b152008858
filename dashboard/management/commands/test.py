"""`python3 manage.py test`: lint, format, types, then every test; CI runs the same.

Takes the place of Django's own `test`: the suite is pytest's. Every check runs, whatever the one
before it said.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

SLOW_MARKERS = ("spark", "browser", "postgres", "slow")
CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
}
TYPES = ["mypy"]  # beside the tests, most of which wait: it takes as long as hundreds of them
NICE = 10  # of what runs beside them
USAGE = """usage: manage.py test [--fast] [pytest arguments]

Runs ruff, mypy and pytest. --fast leaves out the tests that start Spark, a browser or PostgreSQL.
Everything else goes to pytest: manage.py test --fast tests/assignment -k sticky
"""


def pytest_arguments(arguments: list[str]) -> list[str]:
    """What pytest gets for the arguments of this command; a `-m` of the caller wins over --fast."""
    fast = ["-m", f"not ({' or '.join(SLOW_MARKERS)})"] if "--fast" in arguments else []
    mine = ["-p", "tests.second_process", "--durations=10", *fast]
    return ["pytest", *mine, *(a for a in arguments if a != "--fast")]


def run_module(arguments: list[str]) -> bool:
    """Whether `python -m arguments` ended well in the project's folder; its output is shown."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=settings.ROOT, check=False).returncode == 0


def run_beside(arguments: list[str]) -> bool:
    """As `run_module`, at a lower priority; its output is shown in one piece when it ends."""
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(
        command, cwd=settings.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        said = process.communicate()[0]
    sys.stdout.write(f"\n== {arguments[0]}\n{said}")
    sys.stdout.flush()
    return process.returncode == 0


class Command(BaseCommand):
    help = "Runs ruff, mypy and pytest (--fast: no Spark, browser or PostgreSQL)."
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """argparse is left out: every unknown argument belongs to pytest."""
        if {"-h", "--help"} & set(argv[2:]):
            sys.stdout.write(USAGE)
            return
        self.handle(arguments=argv[2:])

    def handle(self, *_: Any, **options: Any) -> None:
        failed = []
        for name, command in CHECKS.items():
            print(f"== {name}", flush=True)
            if not run_module(command):
                failed.append(name)
        with ThreadPoolExecutor(max_workers=1) as beside:
            types = beside.submit(run_beside, TYPES)
            print("== pytest", flush=True)
            if not run_module(pytest_arguments(options["arguments"])):
                failed.append("pytest")
        if not types.result():
            failed.append("mypy")
        if failed:
            print(f"failed: {', '.join(failed)}", file=sys.stderr)
            sys.exit(1)
