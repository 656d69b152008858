"""What attack_check --hostile makes of its phases, and that its clients send what they say."""

import json
from itertools import islice
from typing import Any

import hiredis
import pytest

from assignment.errors import InvalidInput
from dashboard.agents import messages
from dashboard.evaluation.beside import hostile, phases
from dashboard.evaluation.beside.made import PARTITIONS
from dashboard.evaluation.beside.speaking import Web
from dashboard.evaluation.judge import FAILED, HELD, VIOLATED

MOST = messages.most_bytes("heartbeat", PARTITIONS)
PHASES = [{"name": name} for name in (phases.UNDISTURBED, phases.DISTURBED) * 2]
TOLD = [{"requests": 10, "refused": 4}, {"requests": 5, "refused": 1}]


def samples(heartbeat: float, rebalance: float) -> dict[str, Any]:
    return {"heartbeat_ms": [heartbeat] * 10, "rebalance_ms": [rebalance] * 10, "failed": 1}


@pytest.mark.parametrize(
    ("disturbed", "ratios", "code"),
    [
        (samples(8.0, 600.0), (2.0, 1.5), HELD),
        (samples(9.0, 400.0), (2.25, 1.0), VIOLATED),
        (samples(4.0, 900.0), (1.0, 2.25), VIOLATED),
        ({}, (None, None), FAILED),
    ],
)
def test_twice_the_undisturbed_time_is_the_most(
    disturbed: dict[str, Any], ratios: tuple[float | None, float | None], code: int
) -> None:
    found, exit_code = phases.answer(PHASES, [samples(4.0, 400.0), disturbed] * 2, TOLD)
    assert (found["heartbeat_ms"]["ratio"], found["rebalance_ms"]["ratio"]) == ratios
    assert (exit_code, found["ok"]) == (code, code == HELD)
    assert (found["hostile_requests"], found["hostile_refused"]) == (15, 5)


def test_the_largest_lie_is_one_that_is_taken() -> None:
    """Else it is refused before it costs anything, and nothing is measured."""
    body = json.dumps(hostile.lies("hostile", "a", 1, MOST)).encode()
    assert MOST * 0.8 < len(body) <= MOST
    read = messages.read("heartbeat", body)
    assert len(read.owned) == PARTITIONS
    sent = list(islice(hostile.requests(Web(1, group="hostile", token="t"), "a", MOST), 30))
    verbs = {request.split(b" ", 2)[1].rsplit(b"/", 1)[1] for request in sent}
    assert verbs == {b"join", b"heartbeat", b"leave"}
    bodies = [request.split(b"\r\n\r\n", 1)[1] for request in sent if b"/heartbeat " in request]
    assert sum(_is_taken(body) for body in bodies) * 2 > len(bodies)


def _is_taken(body: bytes) -> bool:
    try:
        messages.read("heartbeat", body)
    except InvalidInput:
        return False
    return True


def test_commands_for_redis_are_whole() -> None:
    parser = hiredis.Reader()
    for commands in islice(hostile.commands("hostile", "a"), 8):
        for command in commands:
            parser.feed(command)
            assert parser.gets()[0] in (b"EVALSHA", b"HSET", b"XADD")
            assert parser.gets() is False
