"""What members report, as the scripts keep it: the last complete report with every change since."""

from collections.abc import Collection, ItemsView, Iterable, Iterator, KeysView, Mapping
from functools import cached_property
from typing import NamedTuple, Self

import msgspec
from msgspec import field
from msgspec.structs import force_setattr, replace

from assignment import wire
from assignment.bounds import Line, Name, moment_of, whole_of
from assignment.errors import InvalidInput
from assignment.scripts.held import Holdings
from assignment.scripts.rows import each, remembered
from assignment.troubles import TROUBLES_MAX, Failing, Halted, Unserved, read_trouble
from assignment.types import Partition, ReplicaReport


class Report(wire.SeenEpochs, frozen=True, kw_only=True):
    """What a member said last: its complete report with every change since."""

    number: int
    sequence: int
    at_ms: int
    owned: Holdings = field(default_factory=lambda: Holdings.of({}))
    consumer: wire.ConsumerHealth = field(default_factory=wire.ConsumerHealth)
    unable: str = ""  # types.UnableReason, "" = able
    replicas: Mapping[Partition, ReplicaReport] = field(default_factory=dict)
    unserved: Mapping[Partition, Unserved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "owned", Holdings.of(self.owned))


class Said(wire.SeenEpochs, frozen=True, kw_only=True):
    """A complete report, or all changes since, as it is stored."""

    owned: Mapping[Name, Name | None] = field(default_factory=dict)
    consumer: wire.ConsumerHealth = field(default_factory=wire.ConsumerHealth)
    unable: Line = ""
    replicas: Mapping[Name, ReplicaReport] = field(default_factory=dict)
    unserved: Mapping[Name, Unserved] = field(default_factory=dict)


read_said = msgspec.json.Decoder(Said).decode
REPORTED_EPOCHS = wire.SeenEpochs.__struct_fields__


class Reports(Mapping[str, Report]):
    """By member. Each is read by itself, when the first one is asked for: who is gone is known
    before. What cannot be read is left out, and is in `bad` with why.
    """

    def __init__(self, stored: Iterable[tuple[str, bytes]]) -> None:
        self.stored = dict(stored)

    @cached_property
    def _read(self) -> tuple[dict[str, Report], dict[str, str]]:
        return each(self.stored.items(), lambda member, raw: read_report(raw))

    def without(self, members: Collection[str]) -> "Reports":
        """Their own are left out besides."""
        found, bad = self._read
        left = Reports(self.stored.items())
        left.__dict__["_read"] = ({m: r for m, r in found.items() if m not in members}, bad)
        return left

    @property
    def bad(self) -> Mapping[str, str]:
        return self._read[1]

    def items(self) -> ItemsView[str, Report]:
        """Not one by one, as those of a Mapping are."""
        return self._read[0].items()

    def keys(self) -> KeysView[str]:
        return self._read[0].keys()

    def __getitem__(self, member: str) -> Report:
        return self._read[0][member]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read[0])

    def __len__(self) -> int:
        return len(self._read[0])


class StoredReport(NamedTuple):
    """`number sequence at_ms length <complete><changes>`, the length in bytes."""

    number: int
    sequence: int
    at_ms: int
    complete: bytes
    changes: bytes

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        *numbers, rest = raw.split(b" ", 4)
        number, sequence, at_ms, length = map(whole_of, numbers)
        return cls(number, sequence, moment_of(at_ms), rest[:length], rest[length:])


@remembered  # between two heartbeats a group is read several times
def read_report(raw: bytes) -> Report:
    number, sequence, at_ms, rest = raw.split(b" ", 3)
    return replace(
        _unnumbered(rest),
        number=whole_of(number),
        sequence=whole_of(sequence),
        at_ms=moment_of(at_ms),
    )


@remembered
def _unnumbered(rest: bytes) -> Report:
    """Of `length <complete><changes>`, which mostly stays as it was."""
    stored = StoredReport.parse(b"0 0 0 " + rest)
    complete, changes = read_said(stored.complete), read_said(stored.changes)
    owned = {**complete.owned, **changes.owned} if changes.owned else complete.owned
    held = Holdings.parse({p: text for p, text in owned.items() if text is not None})
    return report_of(stored, complete if stored.changes == b"{}" else changes, held)


def report_of(stored: StoredReport, said: Said, owned: Holdings) -> Report:
    """`said`: the changes, or where there are none the complete one."""
    check_troubles(said.consumer)
    return Report(
        number=stored.number,
        sequence=stored.sequence,
        at_ms=stored.at_ms,
        owned=owned,
        consumer=said.consumer,
        unable=said.unable,
        **{name: getattr(said, name) for name in REPORTED_EPOCHS},
        replicas={Partition.parse(p): replica for p, replica in said.replicas.items()},
        unserved={Partition.parse(p): one for p, one in said.unserved.items()},
    )


def check_troubles(health: wire.ConsumerHealth) -> None:
    """Raises InvalidInput that names what is wrong."""
    for name, kind in (("halted", Halted), ("failing", Failing)):
        told = getattr(health, name)
        if len(told) > TROUBLES_MAX:
            raise InvalidInput(f"{name} has {len(told)} partitions, above {TROUBLES_MAX}")
        for one in told:
            read_trouble(kind, one)
