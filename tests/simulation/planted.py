"""Bugs to be planted: a simulation that does not find them proves nothing.

`PLANTED[name](patch)` plants one; `patch` is pytest's MonkeyPatch, which takes it out again.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent import membership
from agent.membership import Membership
from assignment.coordinator import reading
from assignment.member import decisions, transitions
from assignment.member.messages import Effect, Release
from assignment.member.state import Holding, MemberState
from assignment.types import Claim, HeldState, Partition
from tests.fakes import members, owners, scripts
from tests.fakes.group import Group
from tests.fakes.server import b, t
from tests.simulation.agents import SimAgent
from tests.simulation.consumer import SimConsumer

Patch = pytest.MonkeyPatch
Texts, Raws = Sequence[str], Sequence[str | bytes]
NEVER_MS = 10**9


# --- scripts --------------------------------------------------------------------------------------


def commit_without_fence_check(g: Group, args: Texts, raw: Raws) -> Any:
    """Takes the commit of whoever asks."""
    last = str(g.last_fence(args[0]))
    return owners.commit(g, [*args[:2], last, *args[3:]], raw)


def commit_without_offset_check(g: Group, args: Texts, raw: Raws) -> Any:
    """From wherever, so that what was applied before is applied again."""
    committed = t(g.hash("offsets").get(args[0], b"0-0"))
    return owners.commit(g, [*args[:3], committed, *args[4:]], raw)


def acquire_with_fence_reused(g: Group, args: Texts, raw: Raws) -> Any:
    """The next owner gets the fence of the one before."""
    last_fence = g.last_fence
    g.last_fence = lambda partition: max(0, last_fence(partition) - 1)  # type: ignore[method-assign]
    return owners.acquire(g, args)


def release_that_resets_the_counter(g: Group, args: Texts, raw: Raws) -> Any:
    """What was given up is forgotten, and its fences start anew."""
    answer = owners.release(g, args)
    for partition, done in zip(args[1::2], answer, strict=True):
        if done:
            g.hash("grants").pop(partition, None)
    return answer


def acquire_under_any_run(g: Group, args: Texts, raw: Raws) -> Any:
    """Redis runs anew, without its last writes, and grants on."""
    g.set_meta("run_id", g.server.run_id)
    return owners.acquire(g, args)


def renew_that_takes_back(g: Group, args: Texts, raw: Raws) -> Any:
    """An expired lock lives again when nobody took it meanwhile."""
    for partition, fence in zip(args[2::2], args[3::2], strict=True):
        grant = g.grant(partition)
        if grant and grant[:2] == (int(fence), args[0]) and g.holder(partition) is None:
            g.set_lock(partition, args[0], int(fence), g.now)
    return owners.renew(g, args)


def join_taken_as_new(g: Group, args: Texts, raw: Raws) -> Any:
    """Asked twice, it counts as gone and come again."""
    if g.is_member(args[0]):
        g.remove(args[0], "released", "join")
    return members.join(g, args)


def evict_without_beat_check(g: Group, args: Texts, raw: Raws) -> Any:
    """Judged by an old look, although a sign of life came since."""
    return members.evict(g, [args[0], str(g.now), *args[2:]])


def set_target_without_epochs(g: Group, args: Texts, raw: Raws) -> Any:
    """The target of a coordinator that was overtaken replaces the newer one."""
    epoch = min(int(args[2]), int(g.meta("group_epoch")))
    rows = dict(owners.pairs(args, 3))
    target = g.hash("target")
    target.clear()
    nothing = {"target_epoch": epoch, "active": [], "standby": [], "learning": []}
    target.update({m: b(rows.get(m) or json.dumps(nothing)) for m in g.hash("members")})
    for name, value in (("epoch", epoch), ("run", args[0]), ("at_ms", g.now)):
        g.set_meta(f"target_{name}", value)
    g.hint("target")
    return ["done", str(epoch)]


SCRIPT_BUGS = {
    "commit": (commit_without_fence_check, commit_without_offset_check),
    "acquire": (acquire_with_fence_reused, acquire_under_any_run),
    "release": (release_that_resets_the_counter,),
    "renew": (renew_that_takes_back,),
    "join": (join_taken_as_new,),
    "evict": (evict_without_beat_check,),
    "set_target": (set_target_without_epochs,),
}


def _script_bug(name: str, bug: Callable[..., Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setitem(scripts.SCRIPTS, name, bug)


# --- agents and consumers -------------------------------------------------------------------------


def release_before_the_batch_ended(patch: Patch) -> None:
    revoke = decisions._revoke

    def hasty(member: MemberState, claim: Claim, holding: Holding, now_ms: int) -> list[Effect]:
        if holding.state is HeldState.RUNNING:
            return [Release(claim=claim, reason="revoked")]
        return revoke(member, claim, holding, now_ms)

    patch.setattr(decisions, "_revoke", hasty)


def progress_read_before_the_claim(patch: Patch) -> None:
    """A replica is brought up when its partition is asked for first, and trusted when it is
    granted, however long that took.
    """
    acquire, order = Membership._acquire, SimAgent.order
    early: set[tuple[str, Partition]] = set()

    def acquire_after(self: Any, partitions: Sequence[Partition], reason: str) -> None:
        for partition in partitions:
            if (self.member_id, partition) not in early:
                early.add((self.member_id, partition))
                bring_up(self._restorer, partition)
        acquire(self, partitions, reason)

    def order_nothing(self: SimAgent, claim: Claim) -> None:
        early.discard((self.member_id, claim.partition))
        order(self, claim)

    bring_up = SimAgent.bring_up
    patch.setattr(Membership, "_acquire", acquire_after)
    patch.setattr(SimAgent, "order", order_nothing)
    patch.setattr(SimAgent, "bring_up", lambda self, partition: "")
    patch.setattr(SimConsumer, "_stands_at", lambda self, partition, offset: True)


def refused_and_never_asked_again(patch: Patch) -> None:
    """Who has to wait for another's lock waits for ever."""
    patch.setattr(membership, "ACQUIRE_RETRY_MS", (NEVER_MS, NEVER_MS))
    patch.setattr(transitions, "_asking_at_once", lambda member, now_ms: member)


def coordinator_that_forgets_locks(patch: Patch) -> None:
    """It plans from reports alone: who was granted something since is not known to have it."""
    patch.setattr(reading, "claims", lambda view, unable: {m: {} for m in view.members})


PLANTED: dict[str, Callable[[Patch], None]] = {
    bug.__name__: _script_bug(name, bug) for name, bugs in SCRIPT_BUGS.items() for bug in bugs
} | {
    plant.__name__: plant
    for plant in (
        release_before_the_batch_ended,
        progress_read_before_the_claim,
        refused_and_never_asked_again,
        coordinator_that_forgets_locks,
    )
}
