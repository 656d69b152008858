"""A client of a Redis Cluster: each command goes to the node that has its key.

What names no key goes with the others of its pipeline (TIME, INFO), else it has to be asked of a
node. What its node refuses, for the slot is another's by now, was not carried out, and is sent
there once. What finds its slot on the way between two nodes waits until it has arrived: whoever
asked tries again.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

import redis
from redis.client import Pipeline
from redis.exceptions import MovedError

from dashboard.live.nodes import Moved, StoreUnavailable

AFTER_COUNT = frozenset(("EVAL", "EVALSHA"))  # the keys come behind their number
AFTER_SUBCOMMAND = frozenset(("MEMORY", "OBJECT", "XGROUP", "XINFO"))
OF_NO_KEY = frozenset(
    ("ACL", "CLUSTER", "CONFIG", "INFO", "KEYS", "PING", "SCAN", "SCRIPT", "TIME", "WAIT")
)

Key = str | bytes
Command = tuple[tuple[Any, ...], dict[str, Any]]  # words and options, as redis-py keeps it


def key_in(words: Sequence[Any]) -> Key | None:
    """The first key of a command, as redis-py sends it; None: it names none."""
    name, _, more = str(words[0]).partition(" ")
    if name in OF_NO_KEY:
        return None
    if name == "XREAD":
        place = list(words).index(b"STREAMS") + 1
    elif name in AFTER_COUNT:
        place = 3
    else:
        place = 2 if name in AFTER_SUBCOMMAND and not more else 1
    found: Key = words[place]
    return found


class Nodes(NamedTuple):
    """What is needed of connection.py. `reaching`: makes of an error what callers know."""

    at: Callable[[Key], Any]  # the client of the node that has it
    every: Callable[[], list[Any]]  # of each node that has keys
    reaching: Callable[[], AbstractContextManager[None]]


class RoutedPipeline(Pipeline):
    """As one transaction all its commands have to be of one node."""

    def __init__(self, nodes: Nodes, transaction: bool) -> None:
        super().__init__(None, {}, transaction, None)  # type: ignore[arg-type] # it sends nothing
        self.nodes, self.is_one = nodes, bool(transaction)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """The answers in the order of the commands. Raises StoreUnavailable, Moved among it."""
        stack: list[Command] = list(self.command_stack)
        self.reset()
        if not stack:
            return []
        if self.is_one:
            pipe = self.nodes.at(_common_key(stack)).pipeline(transaction=True)
            pipe.command_stack = stack
            return list(pipe.execute(raise_on_error))
        answers = self._exchanged(stack, range(len(stack)))
        moved = [n for n, answer in answers.items() if isinstance(answer, MovedError)]
        if moved:
            with suppress(Moved), self.nodes.reaching():
                raise answers[moved[0]]
            answers |= self._exchanged(stack, moved)
        found = [answers[n] for n in range(len(stack))]
        errors = [answer for answer in found if isinstance(answer, Exception)]
        if raise_on_error and errors:
            with self.nodes.reaching():
                raise errors[0]
        return found

    def _exchanged(self, stack: list[Command], numbers: Iterable[int]) -> dict[int, Any]:
        """Of those commands, a trip to each of their nodes: number -> answer, errors among them."""
        of_node: dict[Any, list[int]] = {}
        for n in numbers:
            key = key_in(stack[n][0]) or _common_key(stack)
            of_node.setdefault(self.nodes.at(key), []).append(n)
        answers: dict[int, Any] = {}
        for client, some in of_node.items():
            pipe = client.pipeline(transaction=False)
            pipe.command_stack = [stack[n] for n in some]
            answers |= zip(some, pipe.execute(raise_on_error=False), strict=True)
        return answers


def _common_key(stack: Iterable[Command]) -> Key:
    """Of the node to which what names no key goes. ValueError when there is none."""
    for words, _ in stack:
        if (key := key_in(words)) is not None:
            return key
    raise ValueError("a pipeline for a Redis Cluster names no key: ask one of its nodes")


class Routed(redis.Redis):
    def __init__(self, nodes: Nodes) -> None:
        super().__init__()  # with a pool that is never used
        self.nodes = nodes

    def execute_command(self, *words: Any, **options: Any) -> Any:
        key = key_in(words)
        if key is None:
            raise ValueError(f"{words[0]} names no key: ask one node of the Redis Cluster")
        with suppress(Moved):
            return self.nodes.at(key).execute_command(*words, **options)
        return self.nodes.at(key).execute_command(*words, **options)

    def pipeline(self, transaction: Any = False, shard_hint: Any = None) -> RoutedPipeline:
        return RoutedPipeline(self.nodes, transaction)

    def script_load(self, script: Any) -> Any:
        """On every node that has keys. One that is away is so for whoever asks it, and only for
        them. Raises StoreUnavailable when all are.
        """
        answers, away = [], list[StoreUnavailable]()
        for client in self.nodes.every():
            try:
                answers.append(client.script_load(script))
            except StoreUnavailable as error:
                away.append(error)
        if not answers:
            raise away[0]
        return answers[0]
