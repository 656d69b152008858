"""What the members of a process were told, in a memory that does not grow with it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from assignment import wire
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load.lines import Answered, TimedOut

STEP_MS = 0.5
LONGEST_MS = 60_000  # what took longer counts as so long
WHY_MAX = 300
TOO_MANY, UNAVAILABLE = 429, 503


class Latencies:
    """Counts by steps of STEP_MS."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = Counter({int(step): n for step, n in (counts or {}).items()})

    def add(self, seconds: float) -> None:
        self.counts[int(min(seconds * 1e3, LONGEST_MS) / STEP_MS)] += 1

    def merge(self, other: "Latencies") -> None:
        self.counts += other.counts

    def share_ms(self, percent: float) -> float | None:
        """What so many per cent did not pass, rounded up to a step; None: there are none."""
        left = self.counts.total() * percent / 100
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return (step + 1) * STEP_MS
        return None


@dataclass(slots=True)
class Told:
    """What the members of a process were told; only ever counted up."""

    count: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)  # of the first of each kind
    latencies: Latencies = field(default_factory=Latencies)
    heard_since: set[str] = field(default_factory=set)  # members that were answered since asked

    def fail(self, kind: str, why: object) -> None:
        self.count[kind] += 1
        self.why.setdefault(kind, str(why)[:WHY_MAX])

    def reply(self, answer: Answered | NoAnswer, verb: str) -> wire.Reply | None:
        """None: there is none, and why is counted. Who is asked to join later made no error."""
        if isinstance(answer, Answered) and answer.status == 200:
            return msgspec.json.decode(answer.body, type=wire.Reply)
        if isinstance(answer, TimedOut):
            self.fail("timeouts", f"{verb}: {answer}")
        elif isinstance(answer, NoAnswer):
            self.fail("errors", f"{verb}: {answer}")
        elif verb == "join" and _asks_to_wait(answer):
            self.fail("join_waits", f"{answer.status} {answer.body!r}")
        else:
            self.fail("errors", f"{verb}: {answer.status} {answer.body!r}")
        return None


def _asks_to_wait(answer: Answered) -> bool:
    is_later = answer.status == UNAVAILABLE and answer.retry_after_s is not None
    return is_later or answer.status == TOO_MANY
