"""What is known of one replica: its role, how far it is, what is to be done with it.

Values only, guarded by the crew's lock.
"""

from dataclasses import dataclass, field

from agent.replicas.pace import Pace
from agent.replicas.work import Place, Work
from agent.state import Progress
from assignment.types import Claim, Partition, ReplicaReport, Role

RETRY_MS = (1_000, 60_000)  # after a failure; doubled from one to the other


@dataclass(slots=True)
class Replica:
    """`role` None: not wanted beside what is held. `place`: where it stands at the committed
    offset, None while it is on its way there.
    """

    partition: Partition
    work: Work
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
    def lag(self) -> int:
        return max(0, self.end - self.have) if self.end >= 0 else -1

    def lack_nothing(self) -> None:
        self.stateless = self.caught_up = True
        self.have = self.end = 0
        self.place = None

    # --- what became of it

    def take(self, progress: Progress, acceptable_lag: int, now_ms: int) -> bool:
        """Whether it caught up by this step."""
        self.place = None
        self.end = progress.end if progress.end >= 0 else self.end
        if progress.have is None:
            return False
        self.have = progress.have
        if not progress.exact:
            self.fall_behind()
        self.pace.note(now_ms, self.have, max(self.end, 0))
        near = progress.exact and 0 <= self.lag <= acceptable_lag
        return near and self._catch_up()

    def arrive(self, place: Place, now_ms: int) -> bool:
        """Whether it had not caught up before."""
        self.place = place
        self.have = self.end = place.total
        self.failures, self.retry_ms, self.why = 0, None, ""
        self.pace.note(now_ms, self.have, self.end)
        return self._catch_up()

    def _catch_up(self) -> bool:
        before, self.caught_up = self.caught_up, True
        return not before

    def fall_behind(self) -> None:
        """Its content was thrown away."""
        if self.caught_up:
            self.pace.start_anew()
        self.caught_up = self.called = False
        self.place = None

    def fail(self, why: str, now_ms: int) -> None:
        first, last = RETRY_MS
        self.retry_ms = now_ms + min(first * 2 ** min(self.failures, 16), last)
        self.failures += 1
        self.why = why
        self.place = None

    def hand_over(self) -> None:
        """To the consumer, which writes the file from now on, or to nobody."""
        self.role, self.claim, self.learner, self.stateless = None, None, False, False
        self.have, self.end = 0, -1
        self.fall_behind()
        self.failures, self.retry_ms, self.why = 0, None, ""

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
            why=self.why,
        )

    def _percent(self) -> float:
        """100 only for one that lacks nothing."""
        if self.lag == 0:
            return 100.0
        return min(99.9, round(100 * self.have / self.end, 1)) if self.end > 0 else 0.0
