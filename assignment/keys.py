"""Names of the keys in Redis (coordination.md section 1), of a group and of a stream."""

from collections.abc import Callable
from dataclasses import dataclass

from assignment.types import Partition


class _Named:
    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name


class _Key(_Named):
    """A key that has its attribute's name."""

    def __get__(self, keys: "GroupKeys", owner: type) -> str:
        return f"ek:{{{keys.group}}}:{self._name}"


class _KeyOf(_Named):
    """As _Key, one for each that it is called with."""

    def __get__(self, keys: "GroupKeys", owner: type) -> Callable[[str | Partition], str]:
        return lambda of: f"ek:{{{keys.group}}}:{self._name}:{of}"


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """Every key of a group; all share the slot of {group}."""

    group: str

    meta = _Key()
    members = _Key()
    beats = _Key()
    ends = _Key()  # member -> before that none of its locks ends
    reports = _Key()
    asked = _Key()
    target = _Key()
    grants = _Key()
    offsets = _Key()
    applied = _Key()
    snapshots = _Key()
    refused = _Key()
    control = _Key()
    suspects = _Key()  # partition -> what crashes consumers with it in hand (crash.lua)
    skips = _Key()  # partition -> the entry that a person lets it pass (skip.lua)
    replays = _Key()  # partition -> dead letters that wait to be replayed (_letters.lua)
    doubts = _Key()  # partition -> which of them may not be
    lettered = _Key()  # partition -> of which batches a sink need not give them again
    pauses = _Key()  # "*" or partition -> who paused it, when and why (set_pauses.lua)
    paused = _Key()  # partition -> fence under which its owner was told so, when no batch held it
    calls = _Key()  # what concerns every member: hints that it reads for itself
    awaited = _Key()  # partition -> the member that was refused its lock last
    events = _Key()
    outbox = _Key()  # records of targets that the database does not have yet
    coordinator = _Key()  # the member that computes, where the agents coordinate; ends by itself
    hold = _Key()  # nothing is granted while it is there; ends by itself
    since = _Key()  # partition -> "fence at_ms": when its last fence was granted
    guard = _Key()  # never there (of_script)

    owned = _KeyOf()  # a member
    progress = _KeyOf()  # a member
    hints = _KeyOf()  # a member: what concerns it; expires by itself
    counts = _KeyOf()  # a member: what its consumer's tasks counted of the batch in hand; expires
    lock = _KeyOf()  # a partition, as the others
    changelog = _KeyOf()
    dead = _KeyOf()
    replaying = _KeyOf()  # dead letters that a batch applies (bind.lua)

    @property
    def of_script(self) -> tuple[str, str]:
        """What each of the group's scripts declares. It touches others of the same slot, which it
        only finds as it goes: a Redis Cluster that moves the slot key by key refuses, on both of
        its nodes, what declares a key that is there and one that is not. So no script sees half of
        a group, or is broken off half way.
        """
        return self.meta, self.guard


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """Keys of a stream: the events of a partition and its producers share one slot."""

    stream: str

    @property
    def meta(self) -> str:
        return f"{self.stream}:meta"

    @property
    def groups(self) -> str:
        return f"{self.stream}:groups"

    def entries(self, number: int) -> str:
        return f"{{{self.stream}:{number}}}"

    def producers(self, number: int) -> str:
        return f"{{{self.stream}:{number}}}:producers"

    def index(self, number: int) -> str:
        """A sparse stream: id of an entry -> events and bytes up to it; bounds a batch unread."""
        return f"{{{self.stream}:{number}}}:index"

    def hold(self, number: int) -> str:
        return f"{{{self.stream}:{number}}}:hold"
