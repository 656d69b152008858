"""Which of several dashboard addresses is asked: the first that answers, in order of preference.

Values only; asks nobody.
"""

from dataclasses import dataclass, replace

GO_BACK_BEATS = 10  # one that comes and goes would take everybody with it each time


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`current` answered last. Of those before it `candidate` is looked at with every beat, and has
    answered so many in a row.
    """

    addresses: int
    current: int = 0
    candidate: int = 0
    answered: int = 0

    @property
    def order(self) -> list[int]:
        others = [i for i in range(self.addresses) if i != self.current]
        return [self.current, *others]

    @property
    def to_probe(self) -> int | None:
        return self.candidate if self.current else None

    def answered_by(self, index: int) -> "Route":
        return self if index == self.current else Route(addresses=self.addresses, current=index)

    def probed(self, *, answers: bool) -> "Route":
        """One that does not answer gives way to the next before `current`."""
        if not answers:
            return replace(self, candidate=(self.candidate + 1) % self.current, answered=0)
        if self.answered + 1 < GO_BACK_BEATS:
            return replace(self, answered=self.answered + 1)
        return Route(addresses=self.addresses, current=self.candidate)
