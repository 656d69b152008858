"""When an agent joins and beats, and what it makes of the answers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agent.dashboard_session.requests import Answer, DashboardAway
from agent.dashboard_session.session import DashboardSession
from assignment.member.pacing import REJOIN_WITHIN_MS, RETRY_LATER, next_beat_ms
from assignment.member.state import MemberState
from assignment.types import NO_EPOCH, GroupSettings
from assignment.wire import ConsumerHealth, Join, Reply, Status

JOIN = Join(member="east", secret="s" * 32, instance="east")
WAIT = Reply(status=Status.WAIT, seen="a1 5", host="h", wait_ms=600)


class Scene:
    """A session whose clock is set by hand; `sent` is what went to the dashboard."""

    def __init__(self, member: str = "east", heartbeat_ms: int = 3_000) -> None:
        self.now_ms, self.sent = 1_000_000, list[Any]()
        state = MemberState(settings=GroupSettings(stream="s", partitions=1))
        settings = replace(state.settings, heartbeat_ms=heartbeat_ms)
        self.state = msgspec.structs.replace(state, settings=settings)
        membership: Any = SimpleNamespace(
            state=self.state,
            replicas=SimpleNamespace(reports=dict),
            settings_epoch=NO_EPOCH,
            target=NO_EPOCH,
            members=0,
            feed=lambda _: None,
        )
        self.session = DashboardSession(
            identity=replace(JOIN, member=member),
            membership=membership,
            courier=SimpleNamespace(send=self.sent.append, busy=False),  # type: ignore[arg-type]
            clock=lambda: self.now_ms,
            note=lambda *_, **__: None,
        )

    def hear(self, request: Any, reply: Reply | None, retry_after_ms: int = 0) -> None:
        away = None if reply else DashboardAway("away", retry_after_ms)
        self.session.hear(Answer(request, reply, away))

    def joined(self) -> None:
        self.session.join_when_due()
        self.hear(self.sent[-1], Reply(status=Status.OK))

    def beat(self, rows: int = 0) -> bool:
        """Whether one was sent."""
        before = len(self.sent)
        self.session.beat_when_due(ConsumerHealth(why=str(rows)))
        return len(self.sent) > before


def test_who_could_not_ask_meanwhile_awaits_the_process_before_it_anew() -> None:
    """Redis was away for longer than the wait: the owner lives, and could give no sign of life."""
    scene = Scene(heartbeat_ms=300)
    asked = scene.session
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
    assert [join.seen for join in scene.sent] == ["", "a1 5", "", "a1 5"]


def test_beats_of_members_that_changed_together_lie_apart_again() -> None:
    """By the next beat, and for ever after; none comes later than the pause."""
    scenes = [Scene(f"m{n}") for n in range(200)]
    for scene in scenes:
        assert scene.beat()  # all at one moment
    dues = sorted(scene.session.next_beat_ms - scene.now_ms for scene in scenes)
    assert dues[0] > 0
    assert dues[-1] <= 3_000
    for n in range(10):
        in_a_tenth = [due for due in dues if n * 300 < due <= (n + 1) * 300]
        assert 5 < len(in_a_tenth) < 40


@pytest.mark.parametrize("phase", [0.0, 0.25, 0.999])
def test_a_beat_that_was_on_time_is_followed_by_one_a_pause_later(phase: float) -> None:
    first = next_beat_ms(1_234_567, 3_000, phase)
    assert 0 < first - 1_234_567 <= 3_000
    assert next_beat_ms(first, 3_000, phase) == first + 3_000
    assert next_beat_ms(first + 40, 3_000, phase) == first + 3_000, "no beat drifts"


def test_what_changes_waits_for_the_beat_when_the_dashboard_asked_to_come_later() -> None:
    scene = Scene()
    scene.beat()
    scene.hear(scene.sent[-1], None, retry_after_ms=1_000)
    scene.now_ms += 1
    assert not scene.beat(rows=1)
    scene.now_ms = scene.session.next_beat_ms
    assert scene.beat(rows=1), "no later than any beat"
    scene.hear(scene.sent[-1], None)
    scene.now_ms += 1
    assert scene.beat(rows=2), "one that is only away asked for nothing"


def test_what_changes_for_all_of_a_large_group_is_told_by_one_after_the_other() -> None:
    scenes = [Scene(f"m{n}") for n in range(500)]
    waits = []
    for scene in scenes:
        scene.beat()
        scene.hear(scene.sent[-1], None)
        scene.session.membership.members = len(scenes)
        scene.session.next_beat_ms = scene.now_ms + 3_000
        scene.now_ms += 1
        told_at_once = scene.beat(rows=1)
        waits.append(0 if told_at_once else scene.session.next_beat_ms - scene.now_ms)
        assert scene.beat(rows=2) is told_at_once, "more news move it no further"
        scene.now_ms += waits[-1]
        assert scene.beat(rows=3)
    assert max(waits) <= 500
    assert len({wait // 50 for wait in waits}) == 10, "a thousand a second"


def test_who_leaves_a_large_group_says_so_at_once() -> None:
    scene = Scene("m7")
    scene.beat()
    scene.hear(scene.sent[-1], None)
    membership: Any = scene.session.membership
    membership.members = 10_000
    scene.session.next_beat_ms = scene.now_ms + 3_000
    scene.now_ms += 1
    assert not scene.beat(rows=1)
    membership.state = msgspec.structs.replace(scene.state, signalled=True)
    assert scene.beat(rows=1)


def test_a_join_comes_again_no_sooner_than_it_was_asked_to() -> None:
    moments = []
    for n in range(50):
        scene = Scene(f"m{n}")
        scene.session.join_when_due()
        scene.hear(scene.sent[-1], None, retry_after_ms=8_000)
        moments.append(scene.session.next_join_ms - scene.now_ms)
    least, most = (round(8_000 * part) for part in RETRY_LATER)
    assert least <= min(moments) < max(moments) <= most
    assert max(moments) - min(moments) > (most - least) / 2, "they do not come back together"


def test_members_that_were_fenced_together_join_one_after_the_other() -> None:
    moments = []
    for n in range(100):
        scene = Scene(f"m{n}")
        scene.joined()
        assert len(scene.sent) == 1, "the first join is at once"
        scene.session.next_join_ms = 0  # as after a beat
        scene.session.join_when_due()
        moments.append(scene.session.next_join_ms - scene.now_ms)
        scene.now_ms = scene.session.next_join_ms
        scene.session.join_when_due()
        assert len(scene.sent) == 2
    assert 0 <= min(moments) < REJOIN_WITHIN_MS / 4
    assert REJOIN_WITHIN_MS * 3 / 4 < max(moments) <= REJOIN_WITHIN_MS
