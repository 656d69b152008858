"""A head that is known is found by its bytes, and by nothing else."""

import pytest

from dashboard.agents import messages
from dashboard.web.heads import BODY_MAX, HEAD_MAX, Head
from tests.dashboard.heads.counting import AFTER, BEFORE, SAID
from tests.dashboard.served import post


@pytest.mark.parametrize(
    "request_, head",
    [
        (SAID, Head(BEFORE, AFTER)),
        (post("/", b""), Head(BEFORE, AFTER)),
        (
            b"POST / HTTP/1.1\r\ncontent-LENGTH:  2 \r\nA: b\r\n\r\nxy",
            Head(b"POST / HTTP/1.1\r\ncontent-LENGTH:  ", b" \r\nA: b\r\n\r\n"),
        ),
        (SAID + b"x", None),
        (SAID[:-1], None),
        (SAID.replace(b"Content", b"X-Content"), None),
        (SAID.replace(b"Host", b"Content-Length: 4\r\nHost"), None),
        (post("/", b"some", b"A: " + b"x" * HEAD_MAX), None),
    ],
)
def test_a_head_is_remembered_by_what_stands_around_the_length(
    request_: bytes, head: Head | None
) -> None:
    assert Head.of(request_) == head


@pytest.mark.parametrize(
    "data, body",
    [
        (SAID, b"some"),
        (post("/", b"x" * 12), b"x" * 12),
        (post("/", b"a\r\n\r\nb"), b"a\r\n\r\nb"),
        (post("/", b""), b""),
        (post("/", b"x" * BODY_MAX), b"x" * BODY_MAX),
        (post("/", b"x" * (BODY_MAX + 1)), None),
        (SAID[:-1], None),
        (SAID + b"x", None),
        (SAID * 2, None),
        (BEFORE + b"04" + AFTER + b"some", None),
        (BEFORE + b"4" + b"\r\nA: b" + AFTER + b"some", None),
        (BEFORE + b"4", None),
        (post("/other", b"some"), None),
        (SAID.replace(b"localhost", b"LOCALHOST"), None),
        (b"", None),
    ],
)
def test_a_body_is_found_behind_the_same_head_alone(data: bytes, body: bytes | None) -> None:
    head = Head.of(SAID)
    assert head and head.body_in(data) == body


@pytest.mark.parametrize(
    "digits, is_alone",
    [
        (b"4", True),
        (b"%d" % BODY_MAX, True),
        (b"%d" % (BODY_MAX + 1), False),
        (b"100000", False),
        (b"0", False),
        (b"", False),
        (b"-4", False),
        (b"4 ", False),
    ],
)
def test_a_head_whose_body_is_still_to_come(digits: bytes, is_alone: bool) -> None:
    head = Head.of(SAID)
    assert head and head.is_alone(BEFORE + digits + AFTER) is is_alone
    assert not head.is_alone(BEFORE[:-1] + AFTER)


def test_no_body_under_a_known_head_is_read_in_a_thread() -> None:
    assert BODY_MAX <= messages.LARGE
