"""`python3 manage.py simulate --seeds 20000`: groups under faults by seed, in virtual time.

Stops at the first seed that fails, and shows the last steps of it; `--seed N` replays one. What is
simulated is in tests/simulation. Exit code 1: a seed failed; 2: the arguments are wrong.

--growth plays light members of many groups instead, at sizes up to --members of --groups, and says
how what is done grows (exit code 1: something grew faster than said).
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.management.arguments import say

GROWTH, GROWTH_MEMBERS_MAX = "tests.simulation.growth", 1_000_000
SIMULATION, PLANTING = "tests.simulation.seeds", "tests.simulation.planting"
SEEDS, SEEDS_MAX = 500, 10_000_000
PROGRESS_EVERY_S = 5.0
EXIT_BROKEN = 1


class Command(BaseCommand):
    help = "Runs many groups under faults in virtual time; stops at the first seed that fails."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default {SEEDS})")
        parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
        parser.add_argument("--seed", type=int, help="replay this one, with every call of Redis")
        parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
        parser.add_argument("--planted", action="store_true", help="find the planted bugs as well")
        parser.add_argument("--growth", action="store_true", help="how it grows, without faults")
        parser.add_argument("--members", type=int, default=1_000, help="of --growth (1000)")
        parser.add_argument("--groups", type=int, default=10, help="of --growth (10)")
        parser.add_argument("--out", type=Path, help="file for what --growth found, in JSON")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["growth"]:
            self._grow(options)
            return
        seeds = importlib.import_module(SIMULATION)
        if options["seed"] is not None:
            outcome = seeds.run(options["seed"], trace=True)
            self._say_one(outcome, as_json=options["json"])
            broken = bool(outcome.broken)
        else:
            jobs = jobs_of(options["jobs"])
            summary = seeds.run_many(seeds_of(options), jobs=jobs, progress=Progress())
            found = planted_found() if options["planted"] else {}
            self._say_all(summary, found, as_json=options["json"])
            broken = summary.broken is not None or not all(found.values())
        if broken:
            sys.exit(EXIT_BROKEN)

    def _grow(self, options: dict[str, Any]) -> None:
        members, groups = sizes_of(options)
        found = importlib.import_module(GROWTH).grown(members, groups, say)
        if options["out"] is not None:
            options["out"].write_text(json.dumps(found, indent=1) + "\n")
        if options["json"]:
            self.stdout.write(json.dumps(found))
        for way, of in {} if options["json"] else found.items():
            for row in of["rows"]:
                self.stdout.write(f"{way}, {row['phase']}, {row['count']}: {row['exponent']:.2f}")
        faster = [f"{way}: {text}" for way, of in found.items() for text in of["faster"]]
        for text in faster:
            say(f"grows faster: {text}")
        if faster:
            sys.exit(EXIT_BROKEN)

    def _say_one(self, outcome: Any, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(as_values(outcome)))
            return
        self.stdout.write(f"seed {outcome.seed}: {outcome.scenario}")
        self.stdout.write(f"its last steps (ms, who, what):\n{outcome.trace}\n")
        self.stdout.write(verdict(outcome))

    def _say_all(self, summary: Any, planted: dict[str, str], *, as_json: bool) -> None:
        broken = summary.broken
        if as_json:
            speed = {name: getattr(summary, name) for name in ("runs_per_s", "runs_per_cpu_s")}
            more = {"broken": broken and as_values(broken), "planted": planted}
            self.stdout.write(json.dumps(vars(summary) | speed | more))
            return
        self.stdout.write(in_words(summary))
        self.stdout.write(f"faults drawn: {drawn(summary)}")
        if planted:
            missed = [name for name, reason in planted.items() if not reason]
            found = f"{len(planted) - len(missed)} of {len(planted)}"
            self.stdout.write(f"planted bugs found: {found} {'; '.join(missed)}".rstrip())
        if broken:
            self._say_one(broken, as_json=False)
            self.stdout.write(f"replay it: python3 manage.py simulate --seed {broken.seed}")


class Progress:
    """A line to standard error now and then."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + PROGRESS_EVERY_S

    def __call__(self, summary: Any) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + PROGRESS_EVERY_S
            print(in_words(summary), file=sys.stderr, flush=True)


def seeds_of(options: dict[str, Any]) -> range:
    first, count = options["first"], options["seeds"]
    if not 1 <= count <= SEEDS_MAX:
        raise CommandError(f"--seeds {count} is not within 1 and {SEEDS_MAX}")
    if first < 0:
        raise CommandError(f"--first {first} is below 0")
    return range(first, first + count)


def sizes_of(options: dict[str, Any]) -> tuple[int, int]:
    members, groups = options["members"], options["groups"]
    if not 2 <= groups <= members // 2 or members > GROWTH_MEMBERS_MAX:
        raise CommandError(
            f"--members {members} of --groups {groups}: at least two of each, two members a group,"
            f" at most {GROWTH_MEMBERS_MAX} members"
        )
    return members, groups


def jobs_of(jobs: int) -> int:
    cores = os.cpu_count() or 1
    if not 1 <= jobs <= cores:
        raise CommandError(f"--jobs {jobs} is not within 1 and {cores}, the cores of this machine")
    return jobs


def as_values(outcome: Any) -> dict[str, Any]:
    """Its fields, and what follows from them."""
    follows = {"vacuous": outcome.vacuous, "passed": outcome.passed}
    return {**vars(outcome), **follows, "scenario": str(outcome.scenario)}


def verdict(outcome: Any) -> str:
    if outcome.broken:
        return f"FAILED: {outcome.broken}"
    return "vacuous: its faults did nothing" if outcome.vacuous else "passed"


def in_words(summary: Any) -> str:
    return (
        f"{summary.runs} runs: {summary.passed} passed, {summary.vacuous} vacuous,"
        f" {int(summary.broken is not None)} failed; {summary.faults.total()} faults,"
        f" up to {summary.members_max} members, {summary.steps} steps,"
        f" {summary.destroyed} events that Redis lost, {summary.cpu_ms / 1_000:.0f} s of CPU;"
        f" {summary.runs_per_s:.1f} runs/s, {summary.runs_per_cpu_s:.1f} per second of CPU"
    )


def drawn(summary: Any) -> str:
    """How often each fault was, the most frequent first."""
    return ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in summary.faults.most_common())


def planted_found() -> dict[str, str]:
    """Planted bug -> what the simulation says of it, "" where it finds nothing."""
    bugs, found = importlib.import_module(PLANTING).BUGS, {}
    for name, bug in bugs.items():
        outcome = bug.outcome()
        found[name] = f"seed {outcome.seed}: {outcome.broken}" if outcome else ""
        print(f"planted {len(found)}/{len(bugs)}: {name}", file=sys.stderr, flush=True)
    return found
