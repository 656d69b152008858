"""What an agent makes of the answers to its joins."""

from types import SimpleNamespace
from typing import Any

from agent.dashboard_session.requests import Answer, DashboardAway
from agent.dashboard_session.session import DashboardSession
from assignment.wire import Join, Reply, Status

JOIN = Join(member="east", secret="s" * 32, instance="east")
WAIT = Reply(status=Status.WAIT, seen="a1 5", host="h", wait_ms=600)


def session(sent: list[Join]) -> DashboardSession:
    state = SimpleNamespace(incarnation=0, settings=SimpleNamespace(heartbeat_ms=300))
    parts: dict[str, Any] = {
        "membership": SimpleNamespace(state=state),
        "courier": SimpleNamespace(send=sent.append),
    }
    return DashboardSession(identity=JOIN, clock=lambda: 0, note=lambda *_, **__: None, **parts)


def test_who_could_not_ask_meanwhile_awaits_the_process_before_it_anew() -> None:
    """Redis was away for longer than the wait: the owner lives, and could give no sign of life."""
    sent: list[Join] = []
    asked = session(sent)
    for answer in (
        Answer(JOIN, WAIT, None),
        Answer(JOIN, None, DashboardAway("Redis is away")),
        Answer(JOIN, WAIT, None),
    ):
        asked.next_join_ms = 0
        asked.join_when_due()
        asked.hear(answer)
    asked.next_join_ms = 0
    asked.join_when_due()
    assert [join.seen for join in sent] == ["", "a1 5", "", "a1 5"]
