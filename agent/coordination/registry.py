"""What a dashboard would answer to an agent, by the same scripts, straight from Redis.

So a group lives with Redis alone, and one whose agents coordinate goes on without its dashboard.
"""

from collections.abc import Callable
from typing import Any

from agent.dashboard_session.requests import DashboardAway, Refusal, Request
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.scripts import dashboard_side, group_read, heartbeat, replies
from assignment.scripts.dashboard_side import JoinResult
from assignment.scripts.values import Call
from assignment.types import Coordination
from assignment.wire import Heartbeat, Introduction, Join, Leave, Reply, Status

ROW = tuple(Introduction.__dataclass_fields__)
CONFLICT = 409  # as HTTP has it

Ask = Callable[[Request], Reply]


class Registry:
    """`make_group`: called when Redis does not have the group; whether it has it now. `why_not`:
    says once, of the group that was joined, why this agent cannot be of it.
    """

    def __init__(
        self,
        store: GroupStore,
        make_group: Callable[[], bool],
        why_not: Callable[[group_read.Meta], str] = lambda meta: "",
    ) -> None:
        self._store = store
        self._make_group = make_group
        self._why_not = why_not
        self._is_checked = False

    def ask(self, request: Request) -> Reply:
        """Raises DashboardAway or Refusal."""
        try:
            return self._answer(request)
        except StoreUnavailable as error:
            raise DashboardAway(str(error)) from error

    def _answer(self, request: Request) -> Reply:
        match request:
            case Join():
                return self._join(request)
            case Heartbeat():
                return self._report(request)
            case Leave(member=member, secret=secret, stops=stops):
                left = self._run(dashboard_side.leave(member, secret, stops=stops))
                return Reply(status=Status.OK if left else Status.FENCED)

    def _join(self, join: Join) -> Reply:
        row = {name: getattr(join, name) for name in ROW}
        call = dashboard_side.join(join.member, join.secret, row, join.seen)
        joined = self._run(call)
        if joined.result is JoinResult.NO_GROUP and self._make_group():
            joined = self._run(call)
        if joined.result is JoinResult.WAIT:
            return dashboard_side.wait_reply(joined)
        if joined.result is JoinResult.IN_USE:
            raise Refusal(CONFLICT, dashboard_side.in_use(join.member, joined))
        if joined.result is not JoinResult.OK:
            raise DashboardAway(dashboard_side.not_now(self._store.group, joined.result))
        # Another one may have made the group meanwhile.
        if not self._is_checked and (why := self._why_not(self._store.meta())):
            self._run(dashboard_side.leave(join.member, join.secret))
            raise Refusal(CONFLICT, why)
        self._is_checked = True
        assert joined.reply is not None
        return replies.read_reply(joined.reply)

    def _report(self, beat: Heartbeat) -> Reply:
        return replies.read_reply(self._run(heartbeat.report(beat)).reply)

    def _run(self, call: Call[Any]) -> Any:
        return self._store.run(call)


def first_of(dashboards: Ask, registry: Registry, store: GroupStore) -> Ask:
    """The dashboard, as long as one answers; else Redis itself, where the agents coordinate."""

    def ask(request: Request) -> Reply:
        try:
            return dashboards(request)
        except DashboardAway as away:
            try:
                mode = store.meta().coordination
            except StoreUnavailable:
                raise away from None
            if mode is not Coordination.CLIENT:
                raise
            return registry.ask(request)

    return ask
