"""What a heartbeat is answered, and which of its numbers cannot be."""

from typing import Any

import msgspec
import msgspec.structs
import pytest

from assignment.errors import InvalidInput
from assignment.scripts import heartbeat
from assignment.scripts.reports import REPORTED_EPOCHS, read_said
from assignment.types import read_as
from assignment.wire import ConsumerHealth, Heartbeat, Reply, Status

BEAT = {"member": "a", "secret": "s", "sequence": 1, "report": 1, "complete": True}
CALL = heartbeat.report(read_as(Heartbeat, BEAT))
RAW = [b"ok", b"1", b"2", b"3", b"4", b"5", b"0", b"", b"0", b"", b"me", b""]
REPLY = Reply(
    status=Status.OK,
    incarnation=1,
    mode_epoch=2,
    group_epoch=3,
    target_epoch=4,
    settings_epoch=5,
    identity="me",
)


@pytest.mark.parametrize("said", [read_as(Heartbeat, BEAT), REPLY, ConsumerHealth(state="ready")])
def test_what_is_as_by_default_is_left_out_and_read_where_an_older_one_says_it(
    said: msgspec.Struct,
) -> None:
    written = msgspec.json.encode(said)
    in_full = msgspec.json.encode(msgspec.structs.asdict(said))
    assert len(written) < len(in_full)
    for text in (written, in_full):
        assert msgspec.json.decode(text, type=type(said)) == said


def test_all_that_its_process_has_heard_of_is_kept() -> None:
    seen = {name: n for n, name in enumerate(REPORTED_EPOCHS, 1)}
    kept = read_said(heartbeat.report(read_as(Heartbeat, BEAT | seen)).args[5])
    assert {name: getattr(kept, name) for name in seen} == seen


def answered(**changes: Any) -> heartbeat.Reported:
    raw = list(RAW)
    for place, value in changes.items():
        raw[int(place[1:])] = value
    return CALL.read(raw)


def test_members_of_a_group_at_rest_are_answered_the_same() -> None:
    first = answered()
    assert first == heartbeat.Reported(REPLY)
    assert answered() is first


@pytest.mark.parametrize("place", range(1, 12))
def test_each_part_of_an_answer_counts(place: int) -> None:
    """Of what is remembered, too."""
    whole = b'{"stream":"s","partitions":1}'
    value = {7: b"{}", 9: b"leaving", 10: b"other", 11: whole}.get(
        place, b"1" if place > 5 else b"9"
    )
    assert answered(**{f"_{place}": value}) != answered()
    assert answered() == heartbeat.Reported(REPLY)


def test_what_is_one_members_is_not_remembered() -> None:
    before = heartbeat._usual.cache_info().currsize
    answered(_10=b"x" * 256)
    for n in range(10):
        target = b'{"n":%d}' % n
        assert answered(_7=target).reply.target == msgspec.Raw(target)
    assert heartbeat._usual.cache_info().currsize == before


@pytest.mark.parametrize(("said", "status"), [(b"fenced", Status.FENCED), (b"late", Status.LATE)])
def test_a_short_answer_has_a_status_alone(said: bytes, status: Status) -> None:
    assert CALL.read([said]) == heartbeat.Reported(Reply(status=status))


@pytest.mark.parametrize("wrong", [[b"ok"], [*RAW[:-1]], [*RAW, b""], [b"ok", [b"1"], *RAW[2:]]])
def test_an_answer_of_no_script_is_an_error(wrong: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        CALL.read(wrong)


@pytest.mark.parametrize("name", heartbeat.NUMBERS)
def test_a_number_that_cannot_be_is_named(name: str) -> None:
    most = heartbeat.NUMBERS[name]
    heartbeat.report(read_as(Heartbeat, BEAT | {name: most}))
    for wrong in (-1, most + 1):
        with pytest.raises(InvalidInput, match=f"^{name} {wrong} is not within 0 and {most}$"):
            heartbeat.report(read_as(Heartbeat, BEAT | {name: wrong}))
