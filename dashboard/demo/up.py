"""What `up` does: starts everything and looks after it until a signal comes."""

import json
import time
from collections.abc import Callable

from dashboard.demo import requests
from dashboard.demo.demo import NOTHING, Demo
from dashboard.demo.options import Options, Refused
from dashboard.demo.tree import Stopped, TreeFailed

REPORT_EVERY_S = 15.0


def run(options: Options, seconds: float | None, say: Callable[[str], None]) -> int:
    """The exit code: 0 when it ran until it was asked to end. The status object is printed last."""
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
    demo.say("running; Ctrl-C ends it")


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
            demo.say(f"processed {status['processed']} events, {status['rebalances']} rebalances")
