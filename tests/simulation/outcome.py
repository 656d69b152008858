"""What came of one seed."""

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.ledger import Broken


@dataclass(kw_only=True)
class Outcome:
    """`scenario`: what was drawn from the seed."""

    seed: int
    scenario: Any = None
    members: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)  # faults that did nothing to be seen
    struck: Counter[str] = field(default_factory=Counter)  # what was lost, refused, left undone
    reached: Counter[str] = field(default_factory=Counter)  # what a stateful group came to
    owned_ms: int = 0  # after healing, until everything was owned
    settled_ms: int = 0
    destroyed: int = 0  # events without an effect, which Redis lost
    cpu_ms: float = 0.0
    broken: str = ""
    trace: str = ""

    @property
    def vacuous(self) -> bool:
        """Nothing that its faults did could be seen, so that it proves nothing."""
        return not self.broken and self.faults == self.idle and not self.struck.total()

    @property
    def passed(self) -> bool:
        return not self.broken and not self.vacuous

    @contextmanager
    def watched(self, story: Callable[[], str], *, always: bool) -> Iterator[None]:
        """What goes wrong is kept with the story so far, and not raised; `always`: the story is
        kept when nothing goes wrong, too.
        """
        began_s = time.process_time()
        gc.disable()  # what a run leaves behind is found after it; looking all the time is dear
        try:
            yield
        except Exception as error:
            self.broken = f"{type(error).__name__}: {error}"
            self.trace = story() + ("" if isinstance(error, Broken) else traceback.format_exc())
        else:
            self.trace = story() if always else ""
        gc.enable()
        self.cpu_ms = (time.process_time() - began_s) * 1_000
