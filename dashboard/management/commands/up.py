"""`python3 manage.py up`: everything on this machine, supervised, until Ctrl-C.

Progress goes to standard error. The last line on standard output is the status object.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from dashboard.demo import requests
from dashboard.demo.demo import NOTHING, Demo
from dashboard.demo.options import Options, Refused
from dashboard.demo.tree import Stopped, TreeFailed

REPORT_EVERY_S = 15.0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def whole(least: int, most: int) -> Any:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} to {most}"
            )
        return int(text)

    return parse


def not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return value


class Command(BaseCommand):
    help = "Starts Redis, web, Celery, the producer and Spark consumers, each beside its agent."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--consumers", type=whole(1, 100), default=3)
        parser.add_argument("--partitions", type=whole(1, 100_000), default=12)
        parser.add_argument(
            "--standbys",
            type=whole(0, 10),
            default=0,
            help="replicas of each partition's state on other consumers, default 0",
        )
        parser.add_argument(
            "--speed",
            type=not_negative,
            default=3600.0,
            help="replayed seconds per second, default 3600; 0 = as fast as it goes",
        )
        parser.add_argument("--port", type=whole(1, 65_535), default=8000)
        parser.add_argument("--data", type=Path, help="data folder, default ./data")
        parser.add_argument("--no-demo", action="store_true", help="the dashboard alone")
        parser.add_argument(
            "--seconds", type=not_negative, help="stop so long after all partitions are owned"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        wanted = Options(
            data=settings.DATA,
            port=options["port"],
            consumers=options["consumers"],
            partitions=options["partitions"],
            standbys=options["standbys"],
            speed=options["speed"],
            demo=not options["no_demo"],
        )
        sys.exit(run(wanted, options["seconds"]))


def run(options: Options, seconds: float | None) -> int:
    """The exit code: 0 when it ran until it was asked to end."""
    try:
        demo = Demo(options, say)
    except Refused as error:
        say(f"evenkeel: {error}")
        return 1
    demo.tree.stop_on_signals()
    code = 0
    runs = False
    try:
        start(demo)
        runs = True
        watch(demo, seconds)
    except Stopped:
        say("asked to end")
    except (Refused, TreeFailed) as error:
        say(f"evenkeel: {error}")
        code = 1
    finally:
        status = {name: demo.status()[name] for name in NOTHING}
        if not options.demo:
            status["ready"] = runs  # there is no group to ask
        demo.stop()
    print(json.dumps(status), flush=True)
    return code


def start(demo: Demo) -> None:
    demo.start_dashboard()
    if demo.options.demo:
        demo.start_producer()
        demo.start_consumers()
        requests.serve(demo.options.data)
    say("running; Ctrl-C ends it")


def watch(demo: Demo, seconds: float | None) -> None:
    """Until a signal comes, or for that many seconds."""
    began = time.monotonic()
    reported = began
    while seconds is None or time.monotonic() - began < seconds:
        demo.tree.turn()
        if demo.options.demo:
            demo.serve_requests()
        if demo.options.demo and time.monotonic() - reported > REPORT_EVERY_S:
            reported = time.monotonic()
            status = demo.status()
            say(f"processed {status['processed']} events, {status['rebalances']} rebalances")
