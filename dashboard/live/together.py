"""What is asked of Redis at once: one trip to each server, all of them under way beside each other.
Where a server is busy each trip waits for its turn, and one after the other they would wait for the
sum of that. Who asks waits for all of them: a thread for each would have to wake up for a trip,
which costs several trips where others took its caches meanwhile.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from hiredis import pack_command

from dashboard.live.connection import RedisError, StoreUnavailable, client_at, reaching_redis

T = TypeVar("T")
Command = tuple[Any, ...]  # hiredis says of which kinds, but not how many


class Packed(NamedTuple):
    """Commands as they are sent, and how many."""

    commands: bytes
    replies: int


def pack(*commands: Command) -> Packed:
    return Packed(b"".join(map(pack_command, commands)), len(commands))


def pack_script(text: str, keys: Sequence[str], *arguments: str | bytes | int) -> Packed:
    return pack(("EVAL", text, len(keys), *keys, *arguments))


def packed_together(parts: Iterable[Packed]) -> Packed:
    some = list(parts)
    return Packed(b"".join([one.commands for one in some]), sum(one.replies for one in some))


class Connections(Protocol):
    """As a pool of redis-py gives and takes them."""

    def get_connection(self) -> Any: ...
    def release(self, connection: Any) -> None: ...


class Way(NamedTuple):
    """To a server."""

    connections: Connections
    url: str


def way_of(client: Any) -> Way:
    return Way(client.connection_pool, client.url)


def way_to(key: str) -> Way:
    """To the server that has it now. Raises StoreUnavailable."""
    return way_of(client_at(key))


class Question(Generic[T]):
    """`way`: to whom it is put, now. `read`: makes an answer of what the commands are answered,
    with errors among that where `keeps_errors`.
    """

    def __init__(
        self,
        way: Callable[[], Way],
        packed: Packed,
        read: Callable[[list[Any]], T],
        *,
        keeps_errors: bool = False,
    ) -> None:
        self.way, self.packed = way, packed
        self.tried: Way | None = None
        self.found: list[Any] | StoreUnavailable | None = None
        self._read, self._keeps_errors = read, keeps_errors

    def answer(self) -> T:
        """Of the moment when it was asked together with others, else of now. Raises
        StoreUnavailable: where another one is to be asked by now, that one has been as well.
        """
        if self.found is None:
            ask([self])
        try:
            return self._answer()
        except StoreUnavailable:
            if self.way() == self.tried:
                raise
        ask([self])
        return self._answer()

    def _answer(self) -> T:
        if isinstance(self.found, StoreUnavailable):
            raise self.found
        answers = self.found or []
        if not self._keeps_errors:
            for one in answers:
                if isinstance(one, RedisError):
                    with reaching_redis(self.tried.url if self.tried else ""):
                        raise one
        return self._read(answers)


def ask(questions: Iterable[Question[Any]]) -> None:
    """Each of them has its answers then, or why there are none."""
    by_way: dict[Way, list[Question[Any]]] = {}
    for question in questions:
        try:
            question.tried = question.way()
        except StoreUnavailable as error:
            question.tried, question.found = None, error
        else:
            by_way.setdefault(question.tried, []).append(question)
    trips = [_Trip(way, some) for way, some in by_way.items()]
    try:
        for _ in range(2):  # all are sent, then each is waited for
            for trip in trips:
                trip.go_on()
    finally:
        for trip in trips:
            trip.give_up()


class _Trip:
    def __init__(self, way: Way, questions: Sequence[Question[Any]]) -> None:
        self._questions = questions
        self._steps = _steps(way, packed_together(one.packed for one in questions))

    def go_on(self) -> None:
        try:
            next(self._steps)
        except StopIteration as ended:
            self._tell(ended.value)
        except StoreUnavailable as error:
            for one in self._questions:
                one.found = error

    def _tell(self, answers: list[Any] | None) -> None:
        """None: that was over before."""
        if answers is None:
            return
        first = 0
        for one in self._questions:
            one.found = answers[first : first + one.packed.replies]
            first += one.packed.replies

    def give_up(self) -> None:
        """Where it was not over, its connection is."""
        with suppress(StoreUnavailable):
            self._steps.close()


def _steps(way: Way, packed: Packed) -> Generator[None, None, list[Any]]:
    """Sends, then reads. Raises StoreUnavailable."""
    with reaching_redis(way.url):
        connection = way.connections.get_connection()
        try:
            connection.send_packed_command([packed.commands], check_health=False)
            yield
            answers: list[Any] = connection.read_responses(packed.replies)
        except BaseException:  # answers that nobody read must not meet the next command
            connection.disconnect()
            raise
        finally:
            way.connections.release(connection)
    return answers
