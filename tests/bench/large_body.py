"""large_body_ms: CPU of reading a report of 4,096 partitions, all of them replicas with something
wrong; the yardstick is json.loads of the same bytes.

large_body_beside: round trips through a socket that another thread makes meanwhile, as the web
process's loop does; the yardstick is how many it makes alone in that time.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from dashboard.agents import messages, routes, tokens
from dashboard.asgi import SWITCH_S

PARTITIONS = 4_096
BODIES = 8
ROUNDS = 5
REPLICA = {
    "role": "learner",
    "lag": 123_456,
    "percent": 12.34567,
    "rate": 12.3456,
    "eta_ms": 123_456,
    "ready": True,
    "why": "x" * 160,
}
BEAT = {"member": "m", "secret": "0123456789abcdef", "sequence": 1, "report": 1, "complete": True}
KNOWN = tokens.Known("digest", 1, "bench", None, 0.0, "bench", PARTITIONS)


def rows() -> list[dict[str, Any]]:
    replicas = {f"bench:{n}": REPLICA for n in range(PARTITIONS)}
    body = json.dumps(BEAT | {"replicas": replicas}, separators=(",", ":")).encode()
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        ours = min(cpu_s(lambda: read(body)) for _ in range(ROUNDS))
        yardstick = min(cpu_s(lambda: json.loads(body)) for _ in range(ROUNDS))
        made, alone = max((beside(body) for _ in range(ROUNDS)), key=lambda one: one[0] / one[1])
    finally:
        sys.setswitchinterval(before_s)
    return [
        {
            "name": "large_body_ms",
            "value": round(ours * 1e3, 1),
            "unit": "ms of CPU",
            "ratio": round(ours / yardstick, 2),
            "yardstick": f"json.loads of its {len(body) >> 10} KiB: {yardstick * 1e3:.1f} ms",
        },
        {
            "name": "large_body_beside",
            "value": made // BODIES,
            "unit": "round trips a body",
            "ratio": round(made / alone, 2),
            "yardstick": f"alone in that time: {alone // BODIES}",
        },
    ]


def read(body: bytes) -> None:
    messages.check_values(body, PARTITIONS)
    routes.read_beat(KNOWN, body)


def cpu_s(work: Callable[[], Any]) -> float:
    began_s = time.thread_time()
    work()
    return time.thread_time() - began_s


def beside(body: bytes) -> tuple[int, int]:
    """Round trips while bodies are read, and in the same time without."""
    reading = threading.Thread(target=lambda: [read(body) for _ in range(BODIES)])
    began_s = time.perf_counter()
    reading.start()
    made = round_trips(reading.is_alive)
    until_s = 2 * time.perf_counter() - began_s
    return made, round_trips(lambda: time.perf_counter() < until_s)


def round_trips(goes_on: Callable[[], bool]) -> int:
    count, (here, there) = 0, socket.socketpair()
    with here, there:
        while goes_on():
            here.send(b"x")
            there.recv(1)
            count += 1
    return count
