"""What one run left to be judged, as values and as files: everything that the judge knows."""

import base64
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from assignment.scripts.lock_events import LockEvent
from assignment.types import Offset, Partition
from assignment.wire import ChangelogEntry
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.eye import Sample, read_sample, sample_line
from dashboard.evaluation.chaos.starving import HARNESS
from dashboard.evaluation.judge import Appended, Content

RUN, SAMPLES, EVENTS, COMMITS, APPENDED, OFFSETS, ANSWERS, TARGETS, ACKNOWLEDGED = (
    *("run.json", "samples.jsonl", "lock_events.jsonl", "commits.jsonl", "appended.jsonl"),
    *("offsets.json", "answers.jsonl", "targets.jsonl", "acknowledged.txt"),
)
REDIS = "redis"  # among those that may starve


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault as it was. `hurt`: agents whose partitions may move by it; `worked`: whether it did
    anything at all; None: nobody could tell. `wrong`: what was answered as it never may be.
    """

    name: str
    victims: tuple[str, ...] = ()
    at_ms: int = 0
    healed_ms: int | None = None
    hurt: tuple[str, ...] = ()
    worked: bool | None = None
    how: str = ""
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a consumer was answered to a commit that it asked for at `asked_ms`."""

    asked_ms: int
    member: str
    partition: str
    fence: int
    answer: str
    events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A stored target: partition number -> member, None where it names nobody. `by`: the
    coordination that computed it, "" where either may.
    """

    incarnation: int
    epoch: int
    at_ms: int
    cause: str
    owners: tuple[str | None, ...]
    by: str = ""
    moved: int = 0
    avoidable: int | None = None
    phases: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All times by the clock of Redis, which is this machine's. `eras`: what Redis held each time
    before it forgot, then at the end. `answers` and `targets` None: they could not be read.
    """

    asked: Asked
    began_ms: int  # all ready and warm
    struck_ms: int
    healed_ms: int | None
    ended_ms: int
    faults: tuple[Struck, ...]
    eras: tuple[Content, ...]
    acknowledged: frozenset[int]
    samples: tuple[Sample, ...] = ()
    answers: tuple[Answer, ...] | None = None
    targets: tuple[Target, ...] | None = None
    ended: tuple[str, ...] = ()  # agents that ended though nobody struck them
    stalls: tuple[tuple[int, int], ...] = ()  # until when this machine let nobody run, and how long

    @property
    def events(self) -> list[LockEvent]:
        """Of all eras, each once, in their order."""
        found: dict[tuple[str, str, int, str, str], LockEvent] = {}
        for era in self.eras:
            for e in era.events:
                key = (e.kind, str(e.partition), e.fence, e.member_id, e.entry_id)
                found.setdefault(key, e)
        return list(found.values())

    @property
    def hurt(self) -> frozenset[str]:
        """Names of agents whose partitions may move."""
        return frozenset(name for fault in self.faults for name in (*fault.victims, *fault.hurt))

    def held_up_ms(self, from_ms: int, to_ms: int, names: Iterable[str] = ()) -> int:
        """How long then this machine let nobody run, or not these, nor what they need to be heard:
        the harness, whose forwarders are their network, and Redis.
        """
        parts = (min(at, to_ms) - max(at - ms, from_ms) for at, ms in self.stalls)
        stalled_ms = sum(ms for ms in parts if ms > 0)
        if not self.samples:
            return stalled_ms
        first = bisect_right(self.samples, from_ms, key=at_ms_of) - 1
        last = bisect_left(self.samples, to_ms, key=at_ms_of)  # what is waited is counted after it
        before = self.samples[max(0, first)].starved
        after = self.samples[min(last, len(self.samples) - 1)].starved
        starved_ms = sum(after.get(n, 0) - before.get(n, 0) for n in {REDIS, HARNESS, *names})
        return max(stalled_ms, min(starved_ms, to_ms - from_ms))


def at_ms_of(sample: Sample) -> int:
    return sample.at_ms


# --- files


def save(history: History, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "asked": history.asked.values(),
        "faults": [asdict(fault) for fault in history.faults],
        "ended": history.ended,
        "stalls": history.stalls,
        **{name: getattr(history, name) for name in MOMENTS},
        "eras": len(history.eras),
        "known": [name for name in ("answers", "targets") if getattr(history, name) is not None],
    }
    (folder / RUN).write_text(json.dumps(run, indent=1))
    (folder / SAMPLES).write_text("".join(f"{sample_line(s)}\n" for s in history.samples))
    _write(folder / ANSWERS, map(asdict, history.answers or ()))
    _write(folder / TARGETS, map(asdict, history.targets or ()))
    eras = list(enumerate(history.eras))
    _write(folder / EVENTS, ({"era": n, **_event(e)} for n, era in eras for e in era.events))
    _write(folder / COMMITS, (row for n, era in eras for row in _commits(n, era)))
    _write(folder / APPENDED, (row for n, era in eras for row in _appended(n, era)))
    offsets = [{str(p): str(o) for p, o in era.offsets.items()} for era in history.eras]
    (folder / OFFSETS).write_text(json.dumps(offsets))
    (folder / ACKNOWLEDGED).write_text("".join(f"{i}\n" for i in sorted(history.acknowledged)))


MOMENTS = ("began_ms", "struck_ms", "healed_ms", "ended_ms")


def load(folder: Path) -> History:
    """Raises OSError, ValueError, KeyError or TypeError: it is no stored run."""
    run = json.loads((folder / RUN).read_text())
    if run["eras"] < 1:
        raise ValueError("nothing that Redis held is stored")
    answers = tuple(Answer(**row) for row in _rows(folder / ANSWERS))
    targets = tuple(
        Target(**{**row, "owners": tuple(row["owners"])}) for row in _rows(folder / TARGETS)
    )
    return History(
        asked=Asked.of(run["asked"]),
        faults=tuple(_struck(values) for values in run["faults"]),
        ended=tuple(run["ended"]),
        stalls=tuple((at, ms) for at, ms in run["stalls"]),
        **{name: run[name] for name in MOMENTS},
        eras=_eras(folder, run["eras"]),
        acknowledged=frozenset(map(int, (folder / ACKNOWLEDGED).read_text().split())),
        samples=tuple(map(read_sample, (folder / SAMPLES).read_text().splitlines())),
        answers=answers if "answers" in run["known"] else None,
        targets=targets if "targets" in run["known"] else None,
    )


def _struck(values: dict[str, Any]) -> Struck:
    made: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    return Struck(**made)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        yield from map(json.loads, file)


def _event(event: LockEvent) -> dict[str, Any]:
    return {**msgspec.structs.asdict(event), "partition": str(event.partition)}


def _commits(era: int, content: Content) -> Iterator[dict[str, Any]]:
    for partition, entries in content.commits.items():
        for e in entries:
            yield {
                "era": era,
                "partition": str(partition),
                "entry_id": e.entry_id,
                "from": str(e.from_offset),
                "to": str(e.to_offset),
                "fence": e.fence,
                "total": e.total,
                "events": e.events,
                "changes": base64.b64encode(e.changes).decode(),
                "ids": base64.b64encode(e.ids).decode(),
            }


def _appended(era: int, content: Content) -> Iterator[dict[str, Any]]:
    for partition, entries in content.stream.items():
        for one in entries:
            row = {"partition": str(partition), "offset": str(one.offset), "ids": one.ids}
            yield {"era": era, **row}


def _eras(folder: Path, count: int) -> tuple[Content, ...]:
    events: list[list[LockEvent]] = [[] for _ in range(count)]
    commits: list[dict[Partition, list[ChangelogEntry]]] = [{} for _ in range(count)]
    stream: list[dict[Partition, list[Appended]]] = [{} for _ in range(count)]
    for row in _rows(folder / EVENTS):
        era = row.pop("era")
        events[era].append(LockEvent(**{**row, "partition": Partition.parse(row["partition"])}))
    for row in _rows(folder / COMMITS):
        partition = Partition.parse(row["partition"])
        commits[row["era"]].setdefault(partition, []).append(_commit(row))
    for row in _rows(folder / APPENDED):
        one = Appended(Offset.parse(row["offset"]), tuple(row["ids"]))
        stream[row["era"]].setdefault(Partition.parse(row["partition"]), []).append(one)
    offsets: Sequence[Mapping[str, str]] = json.loads((folder / OFFSETS).read_text())
    return tuple(
        Content(
            stream=stream[n],
            commits=commits[n],
            offsets={Partition.parse(p): Offset.parse(o) for p, o in offsets[n].items()},
            events=events[n],
        )
        for n in range(count)
    )


def _commit(row: Mapping[str, Any]) -> ChangelogEntry:
    return ChangelogEntry(
        entry_id=row["entry_id"],
        from_offset=Offset.parse(row["from"]),
        to_offset=Offset.parse(row["to"]),
        fence=row["fence"],
        total=row["total"],
        events=row["events"],
        changes=base64.b64decode(row["changes"]),
        ids=base64.b64decode(row["ids"]),
    )
