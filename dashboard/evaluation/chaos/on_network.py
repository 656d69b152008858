"""Faults of the network between an agent and Redis or the dashboard, made by its forwarders."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dashboard.evaluation.chaos.strikes import Strike, fault
from dashboard.evaluation.forwarder import HELD, LOST, Forwarder, Trouble, Way

LOSS = 0.2  # share of the pieces that are sent again
RETRANSMIT_S = 0.2  # doubled with every further loss
DELAY_S = (0.05, 0.4)
RESET = 0.05  # share of the pieces at which the connection breaks
REPLY_LOST = 0.3


def links_of(one: Strike) -> tuple[list[Forwarder], list[Forwarder]]:
    """To Redis, to the dashboard."""
    links = [one.world.links[name] for name in one.victims]
    return [link.redis for link in links], [link.dashboard for link in links]


@contextmanager
def disturbed(one: Strike, links: Sequence[Forwarder], trouble: Trouble) -> Iterator[None]:
    with mended(one, links):
        for link in links:
            link.disturb(trouble)
        yield


@contextmanager
def mended(one: Strike, links: Sequence[Forwarder]) -> Iterator[None]:
    before = sum(link.troubled for link in links)
    try:
        yield
        one.worked = sum(link.troubled for link in links) > before
    finally:
        for link in links:
            link.mend()


def lossy(dice: random.Random) -> Trouble:
    """What is lost is sent again by TCP, later and later: it only takes longer."""

    def trouble(way: Way) -> float:
        wait_s, retransmit_s = 0.0, RETRANSMIT_S
        while dice.random() < LOSS:
            wait_s, retransmit_s = wait_s + retransmit_s, 2 * retransmit_s
        return wait_s

    return trouble


def delaying(dice: random.Random) -> Trouble:
    return lambda way: dice.uniform(*DELAY_S)


def held(dice: random.Random) -> Trouble:
    return lambda way: HELD


def breaking(dice: random.Random) -> Trouble:
    return lambda way: LOST if dice.random() < RESET else 0.0


def without_replies(dice: random.Random) -> Trouble:
    """The request took effect, its answer never comes."""
    return lambda way: LOST if way is Way.BACK and dice.random() < REPLY_LOST else 0.0


BOTH: dict[str, Callable[[random.Random], Trouble]] = {
    "loss": lossy,
    "delay": delaying,
    "blackhole": held,
    "reset": breaking,
    "reply-lost": without_replies,
}


@fault(*BOTH)
def both(one: Strike) -> Iterator[None]:
    to_redis, to_dashboard = links_of(one)
    what = next(name for name in BOTH if one.name.endswith(name))
    dice = random.Random(one.dice.random())  # it is asked in the forwarders' threads
    links = [*to_redis, *to_dashboard]
    if what == "reset":
        for link in links:
            link.reset()
    with disturbed(one, links, BOTH[what](dice)):
        yield


@fault("cut-redis", "cut-dashboard")
def cut(one: Strike) -> Iterator[None]:
    to_redis, to_dashboard = links_of(one)
    links = to_redis if one.name.endswith("redis") else to_dashboard
    with mended(one, links):
        for link in links:
            link.cut()
        yield


@fault("one-way-cut")
def one_way_cut(one: Strike) -> Iterator[None]:
    """One agent hears Redis and is not heard, or the other way round."""
    one.victims = (one.dice.choice(one.world.asked.names),)
    gone = one.dice.choice(tuple(Way))
    one.how = f"nothing goes {gone}"
    with disturbed(one, links_of(one)[0], lambda way: HELD if way is gone else 0.0):
        yield
