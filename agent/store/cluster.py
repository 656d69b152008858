"""A Redis Cluster as one door: each command goes to the node that has its key.

Which node that is, any of them says; it is asked anew whenever one does not serve. Only what was
certainly not carried out (MOVED) is asked a second time here. A slot that is being moved key by key
(ASK, TRYAGAIN) is never followed: half of it would be seen. Knows no group and no stream.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from agent.store.door import (
    Command,
    Moved,
    RedisDoor,
    ScriptCall,
    StoreUnavailable,
    Timeouts,
)
from assignment.hosts import is_loopback
from assignment.scripts.values import Raw
from assignment.servers import is_cluster, node_url, nodes_of, shown
from assignment.slots import Address, Topology, has_replica, slot_of

Answer = TypeVar("Answer")
KEYLESS = frozenset(("CONFIG", "INFO", "PING", "TIME", "WAIT"))
ASKED_MAX = 4  # nodes, one after the other, where the others are: a lease does not wait for more
POLL_MIN_S, POLL_MAX_S = 0.005, 0.05  # of streams that lie in several slots
SETTLE_S = 1.0  # replicas tell by themselves every second how far they are
SETTLE_POLL_S = 0.002
REPLICA = re.compile(rb"slave\d+:\S*state=online,offset=(\d+)")
REACHED = re.compile(rb"master_repl_offset:(\d+)")


def door_to(
    url: str, timeouts: Timeouts | None = None, token: Callable[[], str] | None = None
) -> "RedisDoor | ClusterDoor":
    """As the address says. Raises InvalidInput; connects with the first call."""
    kind = ClusterDoor if is_cluster(url) else RedisDoor
    return kind(url, timeouts, token)


class ClusterDoor:
    """See Door and RedisDoor, of which it has one for each node."""

    in_cluster = True

    def __init__(
        self,
        url: str,
        timeouts: Timeouts | None = None,
        token: Callable[[], str] | None = None,
    ) -> None:
        self._url, self._timeouts, self._token = url, timeouts, token
        self.address = shown(url)
        self._named = nodes_of(url)
        is_open = not url.startswith("rediss")
        self._only_here = is_open and all(is_loopback(node.host) for node in self._named)
        self._doors: dict[Address, RedisDoor] = {}
        self._topology: Topology | None = None
        self._before: tuple[Address, ...] = ()  # the primaries of the last one that was known
        self._door_of(self._named[0])  # an address that cannot be one is refused here

    # --- as Door ----------------------------------------------------------------------------------

    def run(self, call: ScriptCall) -> Raw:
        return self._at(call.keys[0], lambda door: door.run(call))

    def run_many(self, calls: Sequence[ScriptCall]) -> list[Raw]:
        """In one trip to each node."""
        keys = [call.keys[0] for call in calls]
        return self._each(keys, lambda door, found: door.run_many([calls[n] for n in found]))

    def ask(self, *command: str | bytes | int) -> Raw:
        return self._at(_key_of(command), lambda door: door.ask(*command))

    def ask_together(self, commands: Sequence[Command]) -> list[Raw]:
        """What has no key is asked where the others' keys are."""
        key = next((key for command in commands if (key := _key_of(command)) is not None), None)
        return self._at(key, lambda door: door.ask_together(commands))

    def wait(self, streams: Mapping[str, str], timeout_ms: int, count: int) -> Raw:
        return self._at(next(iter(streams)), lambda door: door.wait(streams, timeout_ms, count))

    def wait_any(self, streams: Mapping[str, str], timeout_ms: int) -> list[str]:
        """Of several slots they are looked at again and again: a server waits for one alone."""
        first, *others = streams
        if all(slot_of(other) == slot_of(first) for other in others):
            return self._at(first, lambda door: door.wait_any(streams, timeout_ms))
        end_s, pause_s = time.monotonic() + timeout_ms / 1000, POLL_MIN_S
        while not (found := self._with_entries(streams)) and time.monotonic() < end_s:
            time.sleep(max(0.0, min(pause_s, end_s - time.monotonic())))
            pause_s = min(2 * pause_s, POLL_MAX_S)
        return found

    def _with_entries(self, streams: Mapping[str, str]) -> list[str]:
        keys = list(streams)
        reads = [("XREAD", "COUNT", 1, "STREAMS", key, streams[key]) for key in keys]
        answers = self._each(keys, lambda door, found: door.ask_each([reads[n] for n in found]))
        return [key for key, answer in zip(keys, answers, strict=True) if answer]

    def settle(self, keys: Sequence[str]) -> None:
        """A commit lies on another node than its events: if theirs fails, its replica must have all
        that was counted. Raises StoreUnavailable when none has it in time.
        """

        def settled(door: RedisDoor, found: Sequence[int]) -> Sequence[bool]:
            return [_is_settled(door, [keys[number] for number in found])] * len(found)

        self._each(keys, settled)

    def is_appendonly(self) -> bool | None:
        """Of all primaries. Raises InvalidInput, StoreUnavailable."""
        found = [self._door_of(node).is_appendonly() for node in self._known().primaries]
        return False if False in found else None if None in found else True

    def close(self) -> None:
        for door in tuple(self._doors.values()):
            door.close()

    # --- where it is ------------------------------------------------------------------------------

    def _at(self, key: str | None, ask: Callable[[RedisDoor], Answer]) -> Answer:
        """Asked of the node that has the key; without one, of any. Asked again when another has it:
        nothing was done.
        """
        try:
            return self._once(key, ask)
        except Moved:
            return self._once(key, ask)

    def _once(self, key: str | None, ask: Callable[[RedisDoor], Answer]) -> Answer:
        topology = self._known()
        node = self._node(topology, key)
        try:
            return ask(self._door_of(node))
        except StoreUnavailable:
            self._forget(topology, node)
            raise

    def _each(
        self, keys: Sequence[str], ask: Callable[[RedisDoor, Sequence[int]], Sequence[Answer]]
    ) -> list[Answer]:
        """One answer for each key, asked in one trip to each node, which is told their numbers."""
        topology = self._known()
        by_node: dict[Address, list[int]] = {}
        answers: dict[int, Answer] = {}
        for number, key in enumerate(keys):
            by_node.setdefault(self._node(topology, key), []).append(number)
        for node, numbers in by_node.items():
            try:
                answers.update(zip(numbers, ask(self._door_of(node), numbers), strict=True))
            except StoreUnavailable:
                self._forget(topology, node)
                raise
        return [answers[number] for number in range(len(keys))]

    def _node(self, topology: Topology, key: str | None) -> Address:
        """Raises StoreUnavailable."""
        try:
            return topology.primary(slot_of(key)) if key is not None else topology.primaries[0]
        except (KeyError, IndexError) as error:
            self._topology = None
            why = f"no node of the Redis Cluster at {self.address} has the slot of {key!r}"
            raise StoreUnavailable(why) from error

    def _door_of(self, node: Address) -> RedisDoor:
        """Without a lock, which a fork would not survive: of two that were made one is kept."""
        if door := self._doors.get(node):
            return door
        url = node_url(self._url, node)
        return self._doors.setdefault(
            node, RedisDoor(url, self._timeouts, self._token, cluster=self._url)
        )

    def _known(self) -> Topology:
        if (known := self._topology) is not None:
            return known
        self._topology = known = self._asked()
        self._before = known.primaries
        for node in self._doors.keys() - set((*known.primaries, *self._named)):
            if door := self._doors.pop(node, None):
                door.drop_connections()
        return known

    def _forget(self, topology: Topology, node: Address) -> None:
        """The node that did not serve is asked last: it may hang, or be cut off from the others."""
        if self._topology is topology:
            self._topology = None
            self._before = (*(other for other in topology.primaries if other != node), node)

    def _asked(self) -> Topology:
        """Raises StoreUnavailable: of some that were asked, none knows."""
        why = StoreUnavailable(f"no node of {self.address} was asked")
        nodes = tuple(dict.fromkeys((*self._before, *self._named)))
        for node in nodes[:ASKED_MAX]:
            try:
                found = Topology.of(self._door_of(node).ask("CLUSTER", "SLOTS"), node)
                self._demand_safe(found.primaries)
                return found
            except StoreUnavailable as error:
                why = error
        self._named = (*self._named[1:], *self._named[:1])
        raise why

    def _demand_safe(self, nodes: Iterable[Address]) -> None:
        """Whoever was allowed to speak openly to this machine alone speaks so to no other."""
        for node in nodes if self._only_here else ():
            if not is_loopback(node.host):
                raise StoreUnavailable(
                    f"the Redis Cluster at {self.address} refers to {node.host}, another machine:"
                    " name a node by that address, which is looked at"
                )


def _key_of(command: Command) -> str | None:
    """The first one; all of a command lie in one slot."""
    match str(command[0]):
        case name if name in KEYLESS:
            return None
        case "XREAD":
            return str(command[command.index("STREAMS") + 1])
        case "XINFO":
            return str(command[2])
        case _:
            return str(command[1])


def _is_settled(door: RedisDoor, keys: Sequence[str]) -> bool:
    """Whether a replica has all that the primary has by now; False: nobody could take over from it.
    Raises StoreUnavailable when that is not so in time.

    A replica that does not keep up, or was cut off, could be elected all the same: it is waited
    for until the cluster has found that it failed. A primary that is cut off itself never hears
    of that, and serves nobody before long. Keys that were moved are another node's matter.
    """
    looks: tuple[Command, ...] = (*(("EXISTS", key) for key in keys), ("INFO", "replication"))
    reached, end_s = -1, time.monotonic() + SETTLE_S
    while True:
        info = door.ask_each(looks)[-1]
        if b"role:master" not in info:
            raise StoreUnavailable(f"the node at {door.address} is a primary no more")
        if reached < 0:
            reached = int(REACHED.findall(info)[0])
        offsets = [int(offset) for offset in REPLICA.findall(info)]
        if max(offsets, default=-1) >= reached:
            return True
        if not has_replica(door.ask("CLUSTER", "NODES")):
            return False
        if time.monotonic() >= end_s:
            raise StoreUnavailable(f"no replica has what the node at {door.address} has")
        door.ask("WAIT", len(offsets) + 1, 1)  # more than there are: so all are asked at once
        time.sleep(SETTLE_POLL_S)
