"""How fast a replica gets on, and when it will be where the log ends, from its last few
positions.
"""

from collections import deque
from dataclasses import dataclass, field

WINDOW_MS = 10_000
SAMPLE_EVERY_MS = 250


@dataclass(slots=True)
class Pace:
    """(ms, events that the replica has, events there are), oldest first."""

    _samples: deque[tuple[int, int, int]] = field(default_factory=deque)

    def note(self, now_ms: int, have: int, end: int) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_EVERY_MS:
            self._samples.append((now_ms, have, end))

    def start_anew(self) -> None:
        self._samples.clear()

    def rate(self, now_ms: int) -> float:
        """Events a second; 0 when nothing is known of the last seconds."""
        passed_ms, gained, _ = self._difference(now_ms)
        return round(max(0, gained) * 1_000 / passed_ms, 1) if passed_ms else 0.0

    def eta_ms(self, now_ms: int, lag: int) -> int | None:
        """Until `lag` is 0 at the pace at which it became less; None: it does not."""
        passed_ms, gained, came = self._difference(now_ms)
        nearer = gained - came
        return lag * passed_ms // nearer if lag >= 0 and nearer > 0 else None

    def _difference(self, now_ms: int) -> tuple[int, int, int]:
        """(ms between the first and the last position, events gained, events that came)."""
        self._forget(now_ms)
        if len(self._samples) < 2:
            return 0, 0, 0
        (since_ms, had, end_then), (at_ms, have, end) = self._samples[0], self._samples[-1]
        return at_ms - since_ms, have - had, end - end_then

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] > WINDOW_MS:
            self._samples.popleft()
