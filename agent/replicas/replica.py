"""What is known of one partition's replica: its role, how far it is, what is to be done with it.

A frozen value; each of its steps gives the next one. No clock, no disk, no threads.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from agent.state.restore import Progress
from assignment.bounds import shortened
from assignment.troubles import WHY_MAX
from assignment.types import Claim, Offset, Partition, ReplicaReport, Role

WINDOW_MS = 10_000
SAMPLE_EVERY_MS = 250

Sample = tuple[int, int, int]  # ms, events that the replica has, events there are


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a replica gets on, and when it will have caught up, from its last few positions."""

    samples: tuple[Sample, ...] = ()  # oldest first

    def with_sample(self, now_ms: int, have: int, end: int) -> "Pace":
        recent = self._recent(now_ms)
        if recent and now_ms - recent[-1][0] < SAMPLE_EVERY_MS:
            return self
        return Pace((*recent, (now_ms, have, end)))

    def rate(self, now_ms: int) -> float:
        """Events a second; 0 when nothing is known of the last seconds."""
        passed_ms, gained, _ = self._difference(now_ms)
        return round(max(0, gained) * 1_000 / passed_ms, 1) if passed_ms else 0.0

    def eta_ms(self, now_ms: int, lag: int) -> int | None:
        """Until `lag` is 0 at the pace at which it became less; None: it does not."""
        passed_ms, gained, came = self._difference(now_ms)
        nearer = gained - came
        return lag * passed_ms // nearer if lag >= 0 and nearer > 0 else None

    def _difference(self, now_ms: int) -> Sample:
        """(ms between the first and the last position, events gained, events that came)."""
        recent = self._recent(now_ms)
        if len(recent) < 2:
            return 0, 0, 0
        (since_ms, had, end_then), (at_ms, have, end) = recent[0], recent[-1]
        return at_ms - since_ms, have - had, end - end_then

    def _recent(self, now_ms: int) -> tuple[Sample, ...]:
        return tuple(s for s in self.samples if now_ms - s[0] <= WINDOW_MS)


RETRY_MS = (1_000, 60_000)  # after a failure; doubled from one to the other


@dataclass(frozen=True, slots=True)
class ReplicaNews:
    """A replica caught up, or (`why`) cannot go on for now. The dashboard should hear of it."""

    partition: Partition
    role: str
    why: str = ""


class Place(NamedTuple):
    """Where a replica stands that has reached the committed offset."""

    offset: Offset
    changelog_id: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """`role` None: not wanted beside what is held. `place`: where it stands at the committed
    offset, None while it is on its way there.
    """

    partition: Partition
    role: Role | None = None
    learner: bool = False  # also while it is given to this member and another holds it still
    claim: Claim | None = None  # acquired: to be brought to the committed offset before all others
    held: bool = False  # its file is the consumer's
    stateless: bool = False  # there is nothing to restore: no file
    place: Place | None = None
    have: int = 0
    end: int = -1
    caught_up: bool = False
    called: bool = False  # its member calls for a rebalance
    why: str = ""
    failures: int = 0
    retry_ms: int | None = None
    unwanted_since_ms: int | None = None
    to_be_removed: bool = False
    queued: bool = False
    running: bool = False
    asked_again: bool = False  # while it was running
    pace: Pace = field(default_factory=Pace)

    @property
    def is_needed(self) -> bool:
        return self.claim is not None or (self.role is not None and not self.stateless)

    @property
    def is_tailed(self) -> bool:
        """At the committed offset, waiting for what comes."""
        idle = not (self.queued or self.running)
        return idle and self.is_needed and self.claim is None and self.place is not None

    @property
    def is_under_way(self) -> bool:
        """Not arrived, or not for what was acquired meanwhile; not waiting after a failure."""
        arrived = self.place is not None and self.claim is None
        return self.is_needed and not arrived and self.retry_ms is None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.have) if self.end >= 0 else -1

    # --- what is wanted of it

    def wanted_as(self, role: Role, *, stateful: bool) -> Self:
        before = self.handed_over() if self.stateless and stateful else self
        replica = replace(
            before,
            role=role,
            learner=role is Role.LEARNER or (role is Role.OWNER and before.learner),
            claim=None,
            held=False,
            unwanted_since_ms=None,
        )
        if stateful:
            return replica
        return replace(replica, stateless=True, caught_up=True, have=0, end=0, place=None)

    def handed_over(self) -> Self:
        """To the consumer, which writes the file from now on, or to nobody."""
        return replace(
            self.behind(),
            role=None,
            claim=None,
            learner=False,
            stateless=False,
            have=0,
            end=-1,
            failures=0,
            retry_ms=None,
            why="",
        )

    # --- what became of it

    def after(self, progress: Progress, acceptable_lag: int, now_ms: int) -> Self:
        end = progress.end if progress.end >= 0 else self.end
        replica = replace(self, place=None, end=end)
        if progress.have is None:
            return replica
        replica = replica if progress.exact else replica.behind()
        pace = replica.pace.with_sample(now_ms, progress.have, max(end, 0))
        replica = replace(replica, have=progress.have, pace=pace)
        near = progress.exact and 0 <= replica.lag <= acceptable_lag
        return replace(replica, caught_up=True, why="") if near else replica

    def arrived(self, place: Place, now_ms: int) -> Self:
        return replace(
            self,
            place=place,
            have=place.total,
            end=place.total,
            failures=0,
            retry_ms=None,
            why="",
            pace=self.pace.with_sample(now_ms, place.total, place.total),
            caught_up=True,
        )

    def behind(self) -> Self:
        """What it has leads nowhere."""
        pace = Pace() if self.caught_up else self.pace
        return replace(self, caught_up=False, called=False, place=None, pace=pace)

    def failed(self, why: str, now_ms: int) -> Self:
        first, last = RETRY_MS
        retry_ms = now_ms + min(first * 2 ** min(self.failures, 16), last)
        return replace(self, retry_ms=retry_ms, failures=self.failures + 1, why=why, place=None)

    # --- what is said of it

    def report(self, now_ms: int) -> ReplicaReport | None:
        """None: nothing that others should count on."""
        if self.role is Role.STANDBY:
            role, ready = Role.STANDBY, self.caught_up
        elif self.role is not None and self.learner:
            role, ready = Role.LEARNER, self.called
        else:
            return None
        lag = self.lag
        return ReplicaReport(
            role=role,
            lag=lag,
            percent=self._percent(),
            rate=self.pace.rate(now_ms),
            eta_ms=0 if lag == 0 else self.pace.eta_ms(now_ms, lag),
            ready=ready,
            why=shortened(self.why, WHY_MAX),
        )

    def _percent(self) -> float:
        """100 only for one that lacks nothing."""
        if self.lag == 0:
            return 100.0
        return min(99.9, round(100 * self.have / self.end, 1)) if self.end > 0 else 0.0
