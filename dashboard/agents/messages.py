"""What agents send, read from its bytes: closed, bounded, and about their own group only.

A body may have as many bytes and values as the group's partitions can need. Small ones are read at
once; large ones one after the other in a thread of their own, a token's next one behind one of each
other token and for half of the time at most.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from assignment import sizes, wire
from assignment.bounds import LINE_MAX, closed, shortened, shown
from assignment.errors import InvalidInput
from assignment.troubles import TROUBLES_MAX
from assignment.types import Partition
from dashboard import strict_json
from dashboard.agents.requests import encode
from dashboard.agents.tokens import Known

BODY_MAX = 8 * 2**20  # a complete report of 100,000 partitions is about 5 MiB
OTHER_BODY_MAX = 2**14
BODY_LEAST = 2**14  # of a heartbeat, whatever the group
# Of one partition: its name and its replica's numbers are 300 bytes, and 160 say what is wrong with
# it; what is owned, or one of TROUBLES_MAX that halted, fail or are not served, takes less.
PARTITION_BYTES = 2**9
PARTITION_VALUES = 16  # a replica has 7
MEMBER_CONNECTIONS = 2  # one of them is left, and not yet known to be
MEMBER_BYTES = 2**10  # of the report of a member that has nothing
TROUBLE_KINDS = 3  # halted, failing, not served
SIZES_KEPT = 1_024  # of groups: how many partitions they have
VALUE_STARTS = b",", b"{", b"["
LARGE = 2**16  # bytes: what is below is read within some milliseconds
T = TypeVar("T")

DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "join": msgspec.json.Decoder(closed(wire.Join)),
    "heartbeat": msgspec.json.Decoder(closed(wire.Heartbeat)),
    "leave": msgspec.json.Decoder(closed(wire.Leave)),
}


class Malformed(InvalidInput):
    """It is no JSON."""


class TooLarge(InvalidInput):
    """It has more values than a report of the group can need."""


class TooBusy(Exception):
    """One large body of the token waits to be read already."""


@lru_cache(SIZES_KEPT)
def most_bytes(verb: str, partitions: int) -> int:
    if verb != "heartbeat":
        return OTHER_BODY_MAX
    return min(BODY_MAX, BODY_LEAST + PARTITION_BYTES * _told_of(partitions))


@lru_cache(SIZES_KEPT)
def most_kept(partitions: int) -> int:
    """Bytes of bodies of one token at a time: complete reports of all that the group has, twice,
    beside those of as many members as it may have.
    """
    members = sizes.members_max(partitions)
    return 2 * most_bytes("heartbeat", partitions) + MEMBER_BYTES * members


@lru_cache(SIZES_KEPT)
def most_connections(partitions: int) -> int:
    """Of one token."""
    return MEMBER_CONNECTIONS * sizes.members_max(partitions)


def check_values(body: bytes, partitions: int) -> None:
    """Before any is made, of a body of many bytes. Raises TooLarge."""
    most = BODY_LEAST + PARTITION_VALUES * _told_of(partitions)
    if len(body) > BODY_LEAST and sum(map(body.count, VALUE_STARTS)) > most:
        raise TooLarge(f"more than {most} values")


def _told_of(partitions: int) -> int:
    """Partitions, one that has a trouble counted again for each kind."""
    return partitions + TROUBLE_KINDS * min(partitions, TROUBLES_MAX)


def read(verb: str, body: bytes) -> Any:
    """A wire.Join, Heartbeat or Leave. Raises Malformed, or InvalidInput that names the place."""
    try:
        message = DECODERS[verb].decode(body)
    except msgspec.ValidationError as error:
        raise InvalidInput(shortened(str(error), LINE_MAX)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(shortened(str(error), LINE_MAX)) from error
    if encode(message) != body:  # what agents write has no name twice, and says all that there is
        strict_json.refuse_twins(verb, body)  # of two values the last one would count
    return message


def check_partitions(beat: wire.Heartbeat, of: Known) -> None:
    """Raises InvalidInput that names one that the group does not have."""
    for text in (*beat.owned, *beat.replicas, *beat.ready, *beat.unserved, *_in_trouble(beat)):
        partition = Partition.parse(text)
        if partition.stream != of.stream or partition.number >= of.partitions:
            last = f"{of.stream}:{of.partitions - 1}"
            raise InvalidInput(
                f"{shown(text)} is no partition of group {of.group!r}: the last one is {last}"
            )


def _in_trouble(beat: wire.Heartbeat) -> Iterable[str]:
    """As `report` has checked them."""
    told = (*beat.consumer.halted, *beat.consumer.failing)
    return [str(one["partition"]) for one in told]


class Reader:
    """One per event loop."""

    def __init__(self) -> None:
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-body")
        self._turn = asyncio.Lock()  # first come, first served
        self._waiting: set[int] = set()
        self._rests: dict[int, float] = {}  # token -> monotonic seconds of its next turn

    async def do(self, token_id: int, work: Callable[[], T]) -> T:
        """What `work` makes of a large body. Raises TooBusy."""
        if token_id in self._waiting:
            raise TooBusy
        self._waiting.add(token_id)
        try:
            await asyncio.sleep(self._rests.get(token_id, 0.0) - time.monotonic())
            await self._turn.acquire()
        finally:
            self._waiting.discard(token_id)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._large, self._timed, token_id, work)
        finally:
            self._turn.release()

    def _timed(self, token_id: int, work: Callable[[], T]) -> T:
        """Then the token rests for as long: one interpreter runs either this thread or the loop."""
        began_s = time.thread_time()
        try:
            return work()
        finally:
            now_s = time.monotonic()
            resting = {token: until_s for token, until_s in self._rests.items() if until_s > now_s}
            self._rests = resting | {token_id: now_s + time.thread_time() - began_s}
