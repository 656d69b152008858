"""What happens to Redis as a whole: it loses its last writes, fails over, forgets all, or its clock
is set. Whoever looks on (`World.rolled_back`) goes on from what it has then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from assignment.types import Partition
from tests.simulation.ledger import Kept

if TYPE_CHECKING:
    from tests.simulation.world import World

SWITCH_MS = (100, 3_000)  # after a failover


@dataclass(slots=True)
class RedisTroubles:
    """`ahead_ms`: its clock, of true time. `name_switches_ms`: until then a new connection reaches
    the old primary.
    """

    world: "World"
    ahead_ms: int = 0
    name_switches_ms: int = 0

    def lose_writes_after(self, ms: int, happens: Callable[[int], None] | None = None) -> None:
        """Unless it is away."""
        if not self.world.server.away:
            self.world.later(ms, self.losing_writes(happens))

    def losing_writes(
        self, happens: Callable[[int], None] | None = None, *, behind: bool = False
    ) -> Callable[[], None]:
        """What makes Redis go on with what it has now, by a restart or as `happens` has it; unless
        its history has branched before. `behind`: its clock goes on from now, too.
        """
        world, server = self.world, self.world.server
        position, history = server.position, server.replication_id
        books, began_ms, paused = world.ledger.kept(), world.redis_ms, world.pausing.scopes

        def strike() -> None:
            if server.replication_id == history:
                server.down = False
                (happens or server.restart)(position)
                world.rolled_back(books, paused)
                world.struck["redis lost writes"] += 1
                if behind:
                    self._ids_come_again(began_ms)

        return strike

    def _ids_come_again(self, from_ms: int) -> None:
        """The clock is put back to there: where it gave an id to an event that was lost since, it
        gives that to another one.
        """
        world = self.world
        self.clock_jumps(min(0, from_ms - world.redis_ms))
        for name, book in world.ledger.books.items():
            number = Partition.parse(name).number
            for in_ms in (at_ms - from_ms for at_ms, _ in sorted(book.lost) if at_ms > from_ms):
                world.agenda.after(in_ms, partial(world.append, number))

    def fail_over(self, position: int, *, same_run: bool = False) -> None:
        """The old primary is gone or answers for a while; perhaps the name still leads to it."""
        world, draw = self.world, self.world.random
        world.server.fail_over(position, same_run=same_run)
        world.connect()
        self.name_switches_ms = world.now_ms + draw.choice((0, draw.randint(*SWITCH_MS)))
        world.later(draw.choice((0, draw.randint(*SWITCH_MS))), world.server.former_ends)

    def returns(self) -> None:
        """With all it had, under another run id; and the name leads to it."""
        server = self.world.server
        self.name_switches_ms = 0
        server.former_ends()
        server.refuse("", 0)
        if server.down:
            server.down = False
            server.restart()

    def wipe(self) -> None:
        self.world.server.wipe()
        self.world.server.down = False
        self.world.rolled_back(Kept())
        self.world.struck["redis wiped"] += 1

    def clock_jumps(self, ms: int) -> None:
        self.world.struck["redis clock was set"] += 1
        self.ahead_ms += ms
