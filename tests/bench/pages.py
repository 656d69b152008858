"""How long the server takes for the lists of a large group: from a request's beginning, at Django's
handler with all of its middleware, to its answer's last byte.

A real group in Redis, and its history in SQLite. Some partitions change hands before each request,
so that no answer can be one from before.
"""

import time
from functools import partial
from typing import Any

from tests.bench import apart
from tests.bench.apart import Figure

FIGURES = {
    20_000: Figure(name="page_p95_20k_ms", aim=150),
    100_000: Figure(name="page_p95_100k_ms", aim=150),
}
LISTS = {
    "partitions": "/groups/bench/partitions/?page={}",
    "members": "/groups/bench/members/",
    "groups": "/groups/",
    "rebalances": "/groups/bench/history/",
    "ownership": "/groups/bench/history/?show=ownership",
}
ROUNDS, SAID_EVERY = 30, 5  # requests of each
LOADS_MAX = 10
PAUSE_S = 2.0  # for longer than a server is left alone that was late (live/deadline.py)
PROGRAM = "from tests.bench import pages; pages.measure({})"


def figures() -> list[dict[str, Any]]:
    found = (apart.rows([figure], partial(measured, size)) for size, figure in FIGURES.items())
    return [row for rows in found for row in rows]


def measured(size: int) -> list[tuple[float, str]]:
    value, *each = apart.values(PROGRAM.format(size))
    lists = ", ".join(f"{name} {ms:.0f}" for name, ms in zip(LISTS, each, strict=True))
    of = f"p95 of {ROUNDS} requests of each list; each alone: {lists} ms"
    return [(round(value, 1), of)]


def measure(size: int) -> None:
    """Prints milliseconds: the 95th of a hundred requests, then that of each list."""
    from tests.bench.live_group import LiveGroup

    live = LiveGroup(size)
    live.keep_history()
    client = logged_in()
    taken: dict[str, list[float]] = {name: [] for name in LISTS}
    for turn in range(ROUNDS + 1):
        for name, address in LISTS.items():
            live.hand_over()
            if turn:
                taken[name].append(asked(client, address.format(turn + 1)))
            else:
                load(client, address.format(1))
        if turn % SAID_EVERY == 0:
            apart.progress(f"lists of {size} partitions: {turn} of {ROUNDS} rounds")
    every = [ms for found in taken.values() for ms in found]
    print(apart.share(every, 95), *(apart.share(found, 95) for found in taken.values()))


def logged_in() -> Any:
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(SERVER_NAME="localhost")
    backend = "django.contrib.auth.backends.ModelBackend"
    client.force_login(User.objects.create_superuser("bench"), backend=backend)
    return client


def load(client: Any, address: str) -> None:
    """What every process loads once. Where that takes longer than a page waits, the page says so,
    and the next one goes on from there. Raises NotMeasured after LOADS_MAX of them.
    """
    for again in reversed(range(LOADS_MAX)):
        try:
            asked(client, address)
            return
        except apart.NotMeasured as error:
            apart.progress(str(error))
            if not again:
                raise
            time.sleep(PAUSE_S)


def asked(client: Any, address: str) -> float:
    """Milliseconds. Raises NotMeasured: the page says that it could not be made."""
    began_s = time.perf_counter()
    answer = client.get(address)
    took_ms = (time.perf_counter() - began_s) * 1000
    if answer.status_code != 200 or b'id="problem"' in answer.content:
        took = f"after {took_ms:.0f} ms"
        raise apart.NotMeasured(f"{address} answered {answer.status_code} {took}: no live view")
    return took_ms
