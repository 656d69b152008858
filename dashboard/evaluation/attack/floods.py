"""Strangers who send too much or too slowly: it costs the system next to nothing, and nobody else
notices.
"""

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from dashboard.evaluation.attack.mutated import good
from dashboard.evaluation.attack.target import Found, Target
from dashboard.web.protocols import Awaited, HttpProtocol
from dashboard.web.visitors import PATIENCE_S, PER_ADDRESS

PIECE = b"x" * 2**16
HEADER_BYTES, BODY_BYTES = 40_000_000, 200_000_000  # as an attack once sent them
TAKEN_MAX = 16 * 2**20  # by buffers of the kernel on the way, before anybody says no
MEMORY_MAX = 24 * 2**20
HALF_SENT = 400
FEW = 5  # that a moment may hold more
SLOW_S = 5.0  # an honest request meanwhile
ELSEWHERE = "127.0.0.9"
STARTS = (
    ("a header", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: ", HEADER_BYTES),
    ("an address", b"GET /", HEADER_BYTES),
    (
        "a body",
        b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES,
        BODY_BYTES,
    ),
    (
        "chunks",
        b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        BODY_BYTES,
    ),
)


def too_much(target: Target) -> Found:
    """40 MB of a header and 200 MB of a body: cut off early, and not kept."""
    problems, memory = list[str](), target.memory()
    for what, start, size in STARTS:
        target.requests += 1
        piece = b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if what == "chunks" else PIECE
        taken = pour(target, start, piece, size)
        if taken > TAKEN_MAX:
            problems.append(f"{what}: {taken} bytes of {size} were taken")
    if (grown := target.memory() - memory) > MEMORY_MAX:
        problems.append(f"the web process has grown by {grown} bytes")
    return Found(", ".join(what for what, _, _ in STARTS), problems)


def pour(target: Target, start: bytes, piece: bytes, size: int) -> int:
    """Bytes that could be sent before the connection ended."""
    sent = 0
    with closing(target.raw()) as connection:
        try:
            connection.sendall(start)
            while sent < size:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
    return sent


def half_sent(target: Target) -> Found:
    """400 requests of which half is sent: most give way at once, all after a while, and meanwhile
    agents and people are answered, those of the same address too.
    """
    halves = (
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
    )
    problems = list[str]()
    with ExitStack() as kept:
        opened = [kept.enter_context(closing(target.raw(ELSEWHERE))) for _ in range(HALF_SENT)]
        for number, connection in enumerate(opened):
            target.requests += 1
            connection.sendall(halves[number % 2])
        time.sleep(2 * PATIENCE_S)
        problems += honest(target, "while 400 half-sent requests wait")
        if (left := still_open(opened)) > PER_ADDRESS + FEW:
            problems.append(f"{left} of {HALF_SENT} stayed beside {PER_ADDRESS} that may")
        time.sleep(HttpProtocol.seconds[Awaited.HEADER] + 1)
        if left := still_open(opened[::2]):
            problems.append(f"{left} of {HALF_SENT // 2} half headers stayed")
        problems += honest(target, "afterwards")
    return Found(f"{HALF_SENT} half-sent requests of one address", problems)


def honest(target: Target, when: str) -> Sequence[str]:
    """What is wrong with the answers that others get."""
    body = good(target.group, "join")
    found = []
    for who, source in (("the same address", ELSEWHERE), ("another one", "127.0.0.10")):
        began = time.monotonic()
        joined = target.post(target.group, "join", body, target.tokens[target.group], source=source)
        page = target.ask("GET", "/login/", source=source)
        took = time.monotonic() - began
        target.forget(source)
        if (joined.status, page.status) != (200, 200) or took > SLOW_S:
            answers = f"{joined.status} and {page.status} after {took:.1f} s"
            found.append(f"{when}, an agent and a page of {who} were answered {answers}")
    return found


def still_open(connections: Sequence[socket.socket]) -> int:
    """Of those that were not yet ended by the other side."""
    found = 0
    for connection in connections:
        connection.setblocking(False)
        try:
            while connection.recv(2**12):
                pass
        except BlockingIOError:
            found += 1
        except OSError:
            pass
    return found


def known_agents(target: Target) -> Found:
    """Twice as many agents of one address as it may have strangers: all stay."""
    body = good(target.group, "join")
    token = target.tokens[target.group]
    head = (
        f"POST /api/agent/v1/{target.group}/join HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with ExitStack() as kept:
        agents = [
            kept.enter_context(closing(target.raw(ELSEWHERE))) for _ in range(2 * PER_ADDRESS)
        ]
        refused = 0
        for agent in agents:
            target.requests += 1
            refused += not is_taken(agent, head.encode() + body)
        for _ in range(PER_ADDRESS):
            kept.enter_context(closing(target.raw(ELSEWHERE))).sendall(b"GET /")
        gone = len(agents) - still_open(agents)
    problems = [f"{refused} were refused"] if refused else []
    problems += [f"{gone} were cut off"] if gone else []
    return Found(f"{2 * PER_ADDRESS} agents beside {PER_ADDRESS} strangers", problems)


def is_taken(agent: socket.socket, message: bytes) -> bool:
    try:
        agent.sendall(message)
        return b" 200 " in agent.recv(2**16).partition(b"\r\n")[0]
    except OSError:
        return False
