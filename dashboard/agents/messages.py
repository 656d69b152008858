"""What agents send, read from its bytes: closed, bounded, and about their own group only.

A body may have as many bytes as the group's partitions can need. Small ones are read at once; large
ones one after the other in a thread of their own, so that whoever sends them delays only others
that do the same.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

import msgspec

from assignment import wire
from assignment.bounds import LINE_MAX, closed, shortened, shown
from assignment.errors import InvalidInput
from assignment.types import Partition
from dashboard import strict_json
from dashboard.agents.tokens import Known

BODY_MAX = 8 * 2**20  # a complete report of 100,000 partitions is about 5 MiB
OTHER_BODY_MAX = 2**14
BODY_LEAST = 2**14  # of a heartbeat, whatever the group
PARTITION_BYTES = 2**11  # owned, replicated, halted and not served at once, each with its reason
LARGE = 2**16  # bytes: what is below is read within a millisecond
LARGE_WAITING_MAX = 16  # bodies, some 100 MiB at most
T = TypeVar("T")

DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "join": msgspec.json.Decoder(closed(wire.Join)),
    "heartbeat": msgspec.json.Decoder(closed(wire.Heartbeat)),
    "leave": msgspec.json.Decoder(closed(wire.Leave)),
}


class Malformed(InvalidInput):
    """It is no JSON."""


class TooBusy(Exception):
    """More large bodies wait to be read than may."""


def most_bytes(verb: str, partitions: int) -> int:
    if verb != "heartbeat":
        return OTHER_BODY_MAX
    return min(BODY_MAX, BODY_LEAST + PARTITION_BYTES * partitions)


def read(verb: str, body: bytes) -> Any:
    """A wire.Join, Heartbeat or Leave. Raises Malformed, or InvalidInput that names the place."""
    try:
        message = DECODERS[verb].decode(body)
    except msgspec.ValidationError as error:
        raise InvalidInput(shortened(str(error), LINE_MAX)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(shortened(str(error), LINE_MAX)) from error
    strict_json.read(verb, body)  # a name given twice: of two values the last one would count
    return message


def check_partitions(beat: wire.Heartbeat, of: Known) -> None:
    """Raises InvalidInput that names one that the group does not have."""
    for text in _named(beat):
        partition = Partition.parse(text)
        if partition.stream != of.stream or partition.number >= of.partitions:
            last = f"{of.stream}:{of.partitions - 1}"
            raise InvalidInput(
                f"{shown(text)} is no partition of group {of.group!r}: the last one is {last}"
            )


def _named(beat: wire.Heartbeat) -> Iterator[str]:
    lists = (beat.consumer.get(name) for name in ("halted", "failing"))
    troubles = chain.from_iterable(one for one in lists if isinstance(one, list))
    told = (one.get("partition") for one in troubles)
    texts = (text for text in told if isinstance(text, str))
    return chain(beat.owned, beat.replicas, beat.ready, beat.unserved, texts)


class Reader:
    """One per event loop."""

    def __init__(self) -> None:
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-body")
        self._waiting = 0

    async def do(self, size: int, work: Callable[[], T]) -> T:
        """What `work` makes of a body of that many bytes. Raises TooBusy."""
        if size <= LARGE:
            return work()
        if self._waiting >= LARGE_WAITING_MAX:
            raise TooBusy
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._large, work)
        finally:
            self._waiting -= 1
