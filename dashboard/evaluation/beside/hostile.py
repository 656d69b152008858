"""Five members of one group, who hold its token and do their worst within what it allows.

    python -m dashboard.evaluation.beside.hostile WEB_PORT REDIS_PORT GROUP SECONDS BYTES

Standard input: the token; BYTES: the largest body that is taken of a heartbeat. Each of the five
has one connection to the dashboard, one to Redis, and some that it only holds. They go on with the
next as soon as they are answered, but no faster than a small client would. At its end it tells
{"requests", "refused", "by_status"}. With ports of idle.py the same is sent to somebody who does
nothing.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count
from typing import Any

from assignment.scripts.group_read import Purpose, read_group
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.evaluation.beside.made import PARTITIONS
from dashboard.evaluation.beside.speaking import NoAnswer, Store, Web, every, pack
from dashboard.live.scripts import script

MEMBERS = 5
PER_SECOND = 40  # requests of one of them, of either kind
HELD_OPEN = 40  # connections of one of them on which nothing more is said
SECRET = "0123456789abcdef"
FENCE_MAX = 2**53 - 1
VALUE = b"x" * 2**18  # what a script takes, or a hash of the group holds, in one piece
EVENTS_AT_ONCE = 50
SIZE_SLACK = 64
LEAVE_BYTES = 2**14


def lies(group: str, member: str, number: int, most: int) -> dict[str, Any]:
    """The largest report that is taken, wrong in every field; able or not by turns, so that each
    asks for a rebalance.
    """
    partitions = [str(Partition(group, n)) for n in range(PARTITIONS)]
    replica = {"role": "standby", "lag": 2**53 - 1, "percent": 100.0, "why": "w" * 1_000}
    halted = [
        {"partition": p, "reason": "crash", "entry": f"{2**63}-1", "why": "h" * 160}
        for p in partitions
    ]
    body: dict[str, Any] = {
        "member": member,
        "secret": SECRET,
        "sequence": number,
        "report": number,
        "complete": True,
        "owned": {p: f"{FENCE_MAX - number} running" for p in partitions},
        "able": number % 2 == 0,
        "unable": "u" * 255,
        "incarnation": 2**21 - 1,
        "target_incarnation": 2**21 - 1,
        "target_epoch": 2**53 - 1,
        "replicas": {p: replica for p in partitions},
        "unserved": {p: {"reason": "stall", "left_ms": 2**53 - 1} for p in partitions},
        "consumer": {"state": "ready", "halted": halted, "rows_per_second": 1e12},
    }
    room = most - len(json.dumps(body)) - SIZE_SLACK
    body["consumer"]["failing"] = [{"why": "f" * 900}] * max(0, min(90, room // 920))
    return body


def requests(web: Web, member: str, most: int) -> Iterator[bytes]:
    """In turn, for ever; each number of a report is above the one before."""

    def join(name: str) -> bytes:
        body = {"member": name, "secret": SECRET, "host": "h" * 255, "version": "v" * 255}
        return web.request("join", json.dumps(body).encode())

    group = web.group
    deep = web.request("heartbeat", b"[" * most)
    wide = web.request("heartbeat", b'{"a":[' + b'"\\u00e9",' * (most // 9 - 2) + b"0]}")
    broken = web.request("heartbeat", b'{"member":"' + b"x" * (most - 20))
    large = web.request("heartbeat", b"x" * (most + 1))
    padded = web.request("leave", b" " * LEAVE_BYTES)
    yield join(member)
    for number in count(1):
        body = json.dumps(lies(group, member, number, most)).encode()
        yield web.request("heartbeat", body)
        yield (deep, wide, broken, large, padded)[number % 5]
        yield join(f"{member}-{number}")
        left = {"member": f"{member}-{number}", "secret": SECRET}
        yield web.request("leave", json.dumps(left).encode())
        if number % 20 == 0:
            yield join(member)


def commands(group: str, member: str) -> Iterator[list[bytes]]:
    """What the token's user may say to Redis, in turn, for ever."""
    keys = GroupKeys(group)
    partition = str(Partition(group, 0))

    def run(name: str, *arguments: Any) -> bytes:
        return pack("EVALSHA", script(name).sha, 1, keys.meta, *arguments)

    look = read_group(Purpose.LOOK)
    huge = run(
        "progress", member, *chain.from_iterable((f"f{n}", VALUE[:2_048]) for n in range(100))
    )
    yield [pack("HSET", keys.reports, f"{member}-garbage", VALUE)]
    for number in count(1):
        fence = str(number)
        yield [run(look.script, *look.args)]
        yield [huge]
        ends = ("0-0", "1-1", "1", "0", "1")
        yield [run("commit", partition, member, fence, *ends, VALUE, b"", "", "0")]
        yield [pack("HSET", keys.members, f"{member}-bad", VALUE[:2_048])]
        event = ("XADD", keys.events, "*", "seq", str(number), "type", "acquired", "partition")
        of = ("member", member, "fence", fence, "at_ms", str(number))
        yield [pack(*event, partition, *of)] * EVENTS_AT_ONCE
        yield [pack("HSET", keys.meta, "group_epoch", str(number + 10))]


async def main() -> None:
    web_port, redis_port, group = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    seconds, most = map(int, sys.argv[4:6])
    token, told = sys.stdin.readline().strip(), Counter[str]()
    work = list[Any]()
    for number in range(MEMBERS):
        member = f"hostile-{number}"
        web = Web(web_port, group=group, token=token)
        store = Store(redis_port, token=token)
        to_web, to_redis = requests(web, member, most), commands(group, member)

        async def ask(web: Web = web, bodies: Iterator[bytes] = to_web) -> None:
            status, _ = await _counted(told, web.send(next(bodies)))
            told[str(status)] += 1

        async def call(store: Store = store, calls: Iterator[list[bytes]] = to_redis) -> None:
            for answer in await _counted(told, store.send(*next(calls))):
                told["error" if isinstance(answer, Exception) else "ok"] += 1

        work += [every(1 / PER_SECOND, ask), every(1 / PER_SECOND, call), hold(web)]
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*work)
    refused = sum(n for status, n in told.items() if status not in ("200", "ok"))
    print(json.dumps({"requests": told.total(), "refused": refused, "by_status": told}))


async def _counted(told: Counter[str], asked: Any) -> Any:
    try:
        return await asked
    except NoAnswer:
        told["none"] += 1
        raise


async def hold(web: Web) -> None:
    """Connections that have shown the token once."""
    held = [Web(web.port, group=web.group, token=web.token) for _ in range(HELD_OPEN)]
    for one in held:
        with suppress(NoAnswer):
            await one.post("leave", b"{}")
    await asyncio.Event().wait()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    asyncio.run(main())
