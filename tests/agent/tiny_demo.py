"""The demo with tiny consumers in Spark's place.

Everything else is real: agents, dashboard, Celery, Redis, signals, history.
"""

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from dashboard.demo.demo import Demo
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import Options
from dashboard.evaluation.system import Run, own_run

TINY = (sys.executable, "-m", "tests.agent.tiny_consumer")
PARTITIONS = 4
EVENT_EVERY_S = 0.01


@contextmanager
def tiny_demo(folder: Path, consumers: int, make: type[Demo] = Demo) -> Iterator[Demo]:
    """With its dashboard and so many consumers started."""
    options = Options(data=folder, port=free_port(), consumers=consumers, pipeline=TINY)
    demo = make(options, lambda line: print(line, file=sys.stderr, flush=True))
    try:
        demo.start_dashboard()
        demo.start_consumers()
        yield demo
    finally:
        demo.stop()


@contextmanager
def tiny_run(make: type[Demo] = Demo) -> Iterator[Run]:
    """What the checks of the demo run: two consumers of PARTITIONS, with a Redis of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REDIS_URL", raising=False)
        patch.delenv("DATABASE_URL", raising=False)
        options = {"consumers": 2, "partitions": PARTITIONS, "pipeline": TINY}
        with own_run(print, seed=1, make=make, **options) as run:
            run.demo.start_dashboard()
            run.demo.start_consumers()
            yield run


@contextmanager
def flowing(run: Run) -> Iterator[None]:
    """Events come in while the body runs, but for the time in which Redis is away."""
    client = redis.Redis.from_url(run.demo.parts.redis_url)
    over = threading.Event()

    def produce() -> None:
        dice = random.Random(1)
        while not over.wait(EVENT_EVERY_S):
            with suppress(redis.ConnectionError):
                client.xadd(f"{{flights:{dice.randrange(PARTITIONS)}}}", {"json": "{}"})

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
