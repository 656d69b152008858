"""heartbeat_us: CPU of the web process for one heartbeat, token check and rate limit included.

A real uvicorn over a real Redis, idle members that report at their own pace; the yardstick is a
bare ASGI route that reads the body and answers, under uvicorn alone and the same load.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

from assignment.wire import API_PREFIX
from dashboard.demo.embedded_redis import EmbeddedRedis, free_port
from dashboard.web.__main__ import LAST, OPTIONS

MEMBERS = 200  # each on its own connection, as agents are
PER_SECOND = 3_334  # 10,000 agents that report every 3 s
BEATS = 20_000
WARM_UP = 2_000
GROUP = "bench"
SECRET = "0123456789abcdef"
START_TIMEOUT_S = 60.0
ROOT = Path(__file__).resolve().parent.parent.parent
MAKE = """
import django; django.setup()
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.records.audit import By
group = groups.create_group("bench", stream="bench", partitions=12, by=By("bench", "command"))
coordinator.tick()
print(groups.create_token(group, by=By("bench", "command")).text)
"""
Body = Callable[[int, int], bytes]


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The yardstick: what any route costs under this server."""
    if scope["type"] != "http":
        return
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder:
        redis = EmbeddedRedis(Path(folder) / "redis")
        redis.start()
        try:
            environment = {
                **os.environ,
                "REDIS_URL": redis.url,
                "EVENKEEL_DATA": folder,
                "EVENKEEL_LOG_LEVEL": "WARNING",
                "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            }
            environment.pop("DATABASE_URL", None)
            token = token_of(environment)
            ours = measured("dashboard.asgi:application", environment, token, *OPTIONS, *LAST)
            yardstick = measured("tests.bench.heartbeat_cost:bare", environment, "none")
        finally:
            redis.stop()
    return [
        {
            "name": "heartbeat_us",
            "value": round(ours, 1),
            "unit": "us of CPU",
            "ratio": round(ours / yardstick, 2),
            "yardstick": f"a bare ASGI route under uvicorn alone: {yardstick:.0f} us",
        }
    ]


def token_of(environment: dict[str, str]) -> str:
    """Of a new group in a new database."""
    run = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    subprocess.run(run, cwd=ROOT, env=environment, check=True)
    made = subprocess.run(
        [sys.executable, "-c", MAKE],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return made.stdout.split()[-1]


def measured(application: str, environment: dict[str, str], token: str, *options: str) -> float:
    """CPU microseconds of the server process for one heartbeat."""
    with serving(application, environment, *options) as (process, port):
        return asyncio.run(beaten(process, port, token))


@contextmanager
def serving(
    application: str, environment: dict[str, str], *more: str
) -> Iterator[tuple[psutil.Process, int]]:
    port = free_port()
    options = [*more, "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", application, "--no-access-log", *options],
        cwd=ROOT,
        env=environment,
    )
    try:
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait()


async def beaten(process: psutil.Process, port: int, token: str) -> float:
    async with connected(port) as connections:
        head = f"Authorization: Bearer {token}\r\nHost: 127.0.0.1\r\n"
        for member, connection in enumerate(connections):
            await asked(connection, head, "join", join_body(member))
        await load(connections, head, 0, WARM_UP)
        before = cpu_s(process)
        await load(connections, head, WARM_UP, BEATS)
        return (cpu_s(process) - before) / BEATS * 1e6


async def load(connections: list[Any], head: str, first: int, count: int) -> None:
    """Heartbeats at PER_SECOND, each member in its turn."""
    began = time.perf_counter()
    tasks: dict[int, asyncio.Task[None]] = {}
    for n in range(count):
        late = began + n / PER_SECOND - time.perf_counter()
        if late > 0.001:
            await asyncio.sleep(late)
        member = (first + n) % MEMBERS
        if member in tasks:
            await tasks[member]
        body = beat_body(member, first + n + 1)
        tasks[member] = asyncio.create_task(asked(connections[member], head, "heartbeat", body))
    await asyncio.gather(*tasks.values())


async def asked(connection: Any, head: str, verb: str, body: bytes) -> None:
    reader, writer = connection
    line = f"POST {API_PREFIX}/{GROUP}/{verb} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    writer.write(line.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200"), answer
    length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)


def join_body(member: int) -> bytes:
    return f'{{"member":"m{member}","secret":"{SECRET}","host":"bench"}}'.encode()


def beat_body(member: int, sequence: int) -> bytes:
    return (
        f'{{"member":"m{member}","secret":"{SECRET}","sequence":{sequence},"report":0,'
        f'"complete":{"true" if sequence <= WARM_UP else "false"},"owned":{{}},"settings_epoch":1,'
        '"incarnation":1,"consumer":{"state":"starting","rows":0,"rows_per_second":0.0}}'
    ).encode()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[list[Any]]:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MEMBERS)]
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
    try:
        yield made
    finally:
        for _, writer in made:
            writer.close()


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
