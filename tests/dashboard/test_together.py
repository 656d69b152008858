"""Questions that are put to Redis in one trip to each server."""

from typing import Any

import pytest
import redis

from dashboard.live import together
from dashboard.live.connection import StoreUnavailable, own_key, sync_client
from dashboard.live.together import Packed, Question, Way, pack, way_of


class Server:
    """Connections to one that answers each command with its name, and what was done over them."""

    def __init__(self, name: str, done: list[str], fails: str = "") -> None:
        self.name, self.done, self.fails = name, done, fails
        self.way = Way(self, f"redis://{name}")

    def __hash__(self) -> int:
        return hash(self.name)

    def _do(self, what: str) -> None:
        self.done.append(f"{self.name} {what}")
        if what == self.fails:
            raise redis.ConnectionError("gone")

    def get_connection(self) -> "Server":
        self._do("opens")
        return self

    def release(self, _: Any) -> None:
        self._do("is given back")

    def send_packed_command(self, _: Any, **__: Any) -> None:
        self._do("is sent")

    def read_responses(self, count: int) -> list[Any]:
        self._do("is read")
        return [f"{self.name} {n}" for n in range(count)]

    def disconnect(self) -> None:
        self._do("ends")

    def question(self, commands: int = 1) -> Question[list[Any]]:
        return Question(lambda: self.way, pack(*[("PING",)] * commands), list)


def test_all_are_sent_before_one_is_waited_for() -> None:
    done = list[str]()
    a, b = Server("a", done), Server("b", done)
    asked = [a.question(), b.question(2), a.question(2)]
    together.ask(asked)
    sent, read = ["opens", "is sent"], ["is read", "is given back"]
    assert done == [f"{name} {what}" for steps in (sent, read) for name in "ab" for what in steps]
    assert [one.answer() for one in asked] == [["a 0"], ["b 0", "b 1"], ["a 1", "a 2"]]
    assert len(done) == 8, "each was asked once"


@pytest.mark.parametrize("fails", ["opens", "is sent", "is read"])
def test_one_that_is_away_is_so_for_those_that_ask_it(fails: str) -> None:
    done = list[str]()
    away, well = Server("away", done, fails), Server("well", done)
    asked = [away.question(), well.question(), away.question()]
    together.ask(asked)
    assert asked[1].answer() == ["well 0"]
    for one in (asked[0], asked[2]):
        with pytest.raises(StoreUnavailable, match="gone"):
            one.answer()
    if fails != "opens":
        assert done.count("away ends") == done.count("away is given back") == 1


def test_who_does_not_know_whom_to_ask_is_told_why() -> None:
    def nobody() -> Way:
        raise StoreUnavailable("no node has the slot")

    lost = Question(nobody, pack(("PING",)), list)
    well = Server("well", []).question()
    together.ask([lost, well])
    assert well.answer() == ["well 0"]
    with pytest.raises(StoreUnavailable, match="no node has the slot"):
        lost.answer()


def test_whoever_has_it_by_now_is_asked_once_more() -> None:
    done = list[str]()
    before, after = Server("before", done, "is read"), Server("after", done)
    ways = iter([before.way, after.way, after.way])
    moved = Question(lambda: next(ways), pack(("PING",)), list)
    assert moved.answer() == ["after 0"]


def test_what_is_broken_off_leaves_no_answer_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()
    a, b = Server("a", done), Server("b", done)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(b, "send_packed_command", interrupted)
    with pytest.raises(KeyboardInterrupt):
        together.ask([a.question(), b.question()])
    for name in "ab":
        assert f"{name} ends" in done and f"{name} is given back" in done


@pytest.fixture
def bad(store: Any) -> Packed:
    """The second one's answer is an error."""
    store.set(own_key("word"), "w")
    return pack(("GET", own_key("word")), ("HGETALL", own_key("word")))


def test_an_answer_that_is_an_error_is_raised(store: Any, bad: Packed) -> None:
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        Question(here, bad, list).answer()
    assert store.get(own_key("word")) == b"w", "the connection is at its next command"


def test_who_can_do_with_errors_is_given_them(store: Any, bad: Packed) -> None:
    word, error = Question(here, bad, list, keeps_errors=True).answer()
    assert word == b"w" and isinstance(error, redis.ResponseError)


def here() -> Way:
    return way_of(sync_client())
