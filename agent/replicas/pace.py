"""How fast a replica gets on, and when it will have caught up, from its last few positions."""

from dataclasses import dataclass

WINDOW_MS = 10_000
SAMPLE_EVERY_MS = 250

Sample = tuple[int, int, int]  # ms, events that the replica has, events there are


@dataclass(frozen=True, slots=True)
class Pace:
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
