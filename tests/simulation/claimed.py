"""What each member claims, by what it asks of Redis: not what it believes, nor what Redis has."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.store.door import ScriptCall
from assignment.types import Claim, Partition
from tests.fakes.values import t

NAMED = 4  # of set_state: partition, fence, state before and after


@dataclass(slots=True)
class Claimed:
    """`of`: the locks that a member's last renew named or that it runs under since, without those
    that it asked to be released, whatever the answer was.

    One whose grant it never heard of is not among them, and none that it gave up: when its lease
    had ended and the clock of Redis was set back, or when Redis lost its release.
    """

    of: defaultdict[str, set[Claim]] = field(default_factory=lambda: defaultdict(set))

    def saw(self, call: ScriptCall) -> None:
        args = [t(arg) for arg in call.args]
        match call.name:
            case "renew":
                self.of[args[0]] = claims(args[2::2], args[3::2])
            case "set_state":
                for n in range(1, len(args), NAMED):
                    if args[n + 2 : n + 4] == ["restoring", "running"]:
                        self.of[args[0]] |= claims([args[n]], [args[n + 1]])
            case "release":
                self.of[args[0]] -= claims(args[1::3], args[2::3])


def claims(partitions: Iterable[str], fences: Iterable[str]) -> set[Claim]:
    return {Claim(Partition.parse(p), int(f)) for p, f in zip(partitions, fences, strict=True)}
