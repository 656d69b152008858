"""Setting a committed offset: what would come of it, refused with what is missing, and done."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.pauses import Pause, Pauses
from assignment.scripts import agent_side
from assignment.scripts.agent_side import SnapshotRecord, record_values, snapshot
from assignment.scripts.group_read import Purpose
from assignment.scripts.pausing import set_pauses
from assignment.types import Claim, HeldState, Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.actions.offsets import LARGE
from dashboard.coordinator import mirror
from dashboard.live import groups as live_groups
from dashboard.live import watching
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, Group, OffsetJump
from tests.dashboard.agents import FakeAgent
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.people import granted, logged_in

NUMBER, MINUTE_MS = 1, 60_000


class Scene:
    """Partition 1 with ten single events, one a minute; eight are committed, two at once."""

    def __init__(self, group: Group, agent: FakeAgent, store: Any) -> None:
        self.group, self.store, self.agent = group, store, agent
        self.partition = Partition(group.stream, NUMBER)
        agent.start()
        coordinator.rebalance(group.name)
        agent.follow()
        self.fence = agent.held[self.partition]
        self.began_ms = live_groups.redis_now_ms() - 10 * MINUTE_MS
        for n in range(1, 11):
            store.xadd(self.entries, {"n": n}, id=str(self.at(n)))

    @property
    def entries(self) -> str:
        return StreamKeys(self.group.stream).entries(NUMBER)

    @property
    def path(self) -> str:
        return f"groups/{self.group.name}/partitions/{NUMBER}/offset"

    def at(self, number: int) -> Offset:
        return Offset(self.began_ms + number * MINUTE_MS, 0) if number else Offset(0, 0)

    def commits(self, *, state: bool) -> None:
        for n in range(0, 8, 2):
            request = agent_side.CommitRequest(
                partition=self.partition,
                member_id=self.agent.member,
                fence=self.fence,
                from_offset=self.at(n),
                to_offset=self.at(n + 2),
                events=2,
                changelog=state,
            )
            answer = run(agent_side.commit(request), self.group.name)
            if state and n in (2, 4):
                record = SnapshotRecord(
                    url=f"/snapshots/{n}",
                    offset=self.at(n + 2),
                    changelog_id=answer.changelog_id,
                    total=n + 2,
                    fence=self.fence,
                )
                run(snapshot(self.partition, record, trim=True), self.group.name)

    def stands_still(self) -> None:
        pause = Pause(actor="ann", reason="why", at_ms=1)
        run(set_pauses(Pauses(version=1, partitions={self.partition: pause}), 0), self.group.name)
        states = HeldState.RESTORING, HeldState.RUNNING
        change = agent_side.StateChange(self.partition, self.fence, *states)
        run(agent_side.set_state(self.agent.member, [change]), self.group.name)
        run(agent_side.next_batch(self.agent.member), self.group.name)

    def committed(self) -> str:
        return live_groups.committed(self.group.name, self.partition)


@pytest.fixture
def scene(group: Group, agent: FakeAgent, store: Any) -> Scene:
    return Scene(group, agent, store)


@pytest.fixture
def operator(user: User) -> Program:
    granted(user, "operator")
    return Program.of(user)


def outlook(program: Program, scene: Scene, to: str, **where: Any) -> dict[str, Any]:
    found: dict[str, Any] = read(program.post(f"{scene.path}/outlook", {"to": to, **where}))
    return found


def set_to(program: Program, scene: Scene, to: str, **where: Any) -> Any:
    seen = outlook(program, scene, to, **where)["seen"]
    asked = {"to": to, "seen": seen, "reason": "again", **where}
    return program.post(scene.path, asked)


def test_back_in_time_and_on_record(operator: Program, scene: Scene) -> None:
    scene.commits(state=False)
    assert "it is not paused" in outlook(operator, scene, "offset", offset="0-0")["refused"]
    scene.stands_still()
    found = outlook(operator, scene, "time", time=str(scene.at(5).ms))
    assert (found["before"], found["after"]) == (str(scene.at(8)), str(scene.at(4)))
    assert (found["events"], found["refused"]) == (4, "")
    assert "4 events above" in found["says"][0]
    assert "no consumer says where they live" in found["says"][1]
    assert scene.committed() == str(scene.at(8)), "an outlook changes nothing"
    done = read(set_to(operator, scene, "time", time=str(scene.at(5).ms)))
    assert (scene.committed(), done["fence"]) == (str(scene.at(4)), str(scene.fence + 1))
    renewed = agent_side.renew(scene.agent.member, 1_000, [Claim(scene.partition, scene.fence)])
    assert run(renewed, scene.group.name).held == (False,)
    [jump] = read(operator.get(f"groups/{scene.group.name}/offset-jumps", partition=NUMBER))[
        "items"
    ]
    assert (jump["actor"], jump["reason"], jump["events"]) == ("ann", "again", 4)
    kept = AuditEntry.objects.latest("seq")
    assert (kept.action, kept.object) == ("set committed offset", str(scene.partition))
    assert kept.before == {"offset": str(scene.at(8)), "fence": str(scene.fence)}
    lag = {p.number: p.lag_records for p in rows_of(scene)}
    assert lag[NUMBER] == 6


def rows_of(scene: Scene) -> Any:
    return watching.snapshot(scene.group.name).partitions


@pytest.mark.parametrize(
    ("effects", "back", "forward"),
    [
        ("sink", "delivered to the sink again", ""),
        ("sql sink", "Nothing is processed again", "keeps its own offset"),
    ],
)
def test_what_becomes_of_a_sinks_effects(
    operator: Program, scene: Scene, effects: str, back: str, forward: str
) -> None:
    scene.commits(state=False)
    scene.stands_still()
    progress = GroupKeys(scene.group.name).progress(scene.agent.member)
    scene.store.hset(progress, "effects", effects)
    assert any(back in one for one in outlook(operator, scene, "earliest")["says"])
    refused = outlook(operator, scene, "latest")["refused"]
    assert forward in refused if forward else refused == ""
    answer = set_to(operator, scene, "latest")
    if forward:
        assert forward in problem(answer, 409)
        assert (scene.committed(), OffsetJump.objects.count()) == (str(scene.at(8)), 0)
    else:
        assert read(answer)["events"] == 2
        assert [p.lag_records for p in rows_of(scene)][NUMBER] == 0


def test_state_is_the_limit_and_stays_back_when_redis_comes_anew(
    operator: Program, scene: Scene
) -> None:
    scene.commits(state=True)
    mirror.keep(scene.group, live_groups.read(scene.group.name, Purpose.LOOK))
    scene.stands_still()
    assert (
        "no state can be built at"
        in (outlook(operator, scene, "offset", offset=str(scene.at(3)))["refused"])
    )
    found = outlook(operator, scene, "offset", offset=str(scene.at(5)))
    assert (found["after"], found["state_oldest"]) == (str(scene.at(4)), str(scene.at(4)))
    assert "/snapshots/2" in outlook(operator, scene, "offset", offset=str(scene.at(3)))["refused"]
    read(set_to(operator, scene, "offset", offset=str(scene.at(5))))
    assert scene.committed() == str(scene.at(4))
    known = mirror.read(scene.group, None).snapshots  # type: ignore[arg-type]
    assert known[scene.partition].offset == scene.at(4), "it is not moved forward again"
    since = SnapshotRecord(
        url="/snapshots/5", offset=scene.at(5), changelog_id="0-0", total=5, fence=scene.fence + 1
    )
    raw = json.dumps([record_values(since)])
    scene.store.hset(GroupKeys(scene.group.name).snapshots, str(scene.partition), raw)
    mirror.keep(scene.group, live_groups.read(scene.group.name, Purpose.LOOK))
    known = mirror.read(scene.group, None).snapshots  # type: ignore[arg-type]
    assert known[scene.partition] == since, "though it is below what was recorded before"


def test_forward_from_where_nothing_was_committed_a_consumer_says_whether_it_keeps_state(
    operator: Program, scene: Scene
) -> None:
    scene.stands_still()
    assert "whether it keeps state" in outlook(operator, scene, "latest")["refused"]
    scene.store.hset(GroupKeys(scene.group.name).progress(scene.agent.member), "effects", "state")
    read(set_to(operator, scene, "latest"))
    [entry] = scene.store.xrange(GroupKeys(scene.group.name).changelog(scene.partition))
    assert entry[1][b"to"].decode() == str(scene.at(10))


def test_where_events_are_gone_it_says_which_is_the_oldest(operator: Program, scene: Scene) -> None:
    scene.commits(state=False)
    scene.stands_still()
    scene.store.xtrim(scene.entries, minid=str(scene.at(4)), approximate=False)
    found = outlook(operator, scene, "offset", offset=str(scene.at(2)))
    assert f"the oldest that is kept is {scene.at(4)}" in found["refused"]
    above = f"{scene.at(10).ms}-1"
    assert "is above the last event" in outlook(operator, scene, "offset", offset=above)["refused"]
    assert outlook(operator, scene, "earliest")["events"] == 5
    read(set_to(operator, scene, "earliest"))
    held = scene.store.get(StreamKeys(scene.group.stream).hold(NUMBER))
    assert held.decode() == scene.committed(), "who read offsets before drops nothing above it"


def test_what_is_done_is_what_was_shown(operator: Program, scene: Scene) -> None:
    scene.commits(state=False)
    scene.stands_still()
    asked = {"to": "earliest", "seen": "something else"}
    assert "is not as it was shown" in problem(operator.post(scene.path, asked), 409)
    wrong = {"to": "time", "offset": "1-0"}
    assert "an offset belongs to" in problem(operator.post(f"{scene.path}/outlook", wrong), 422)


def test_the_page_shows_it_and_takes_the_groups_name_for_many(
    user: User, group: Group, scene: Scene
) -> None:
    granted(user, "operator")
    client = logged_in(user)
    for n in range(LARGE):
        scene.store.xadd(scene.entries, {"n": n}, id=f"{scene.at(11).ms}-{n}")
    scene.commits(state=False)
    scene.stands_still()
    page = client.get(f"/{scene.path}/?to=latest").content.decode()
    assert "<option selected>latest</option>" in page
    assert "1 002" in page.replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\xa0", " ")
    seen = page.partition('name="seen" value="')[2].partition('"')[0]
    sent = {"seen": seen, "reason": "why", "typed": "no"}
    refused = client.post(f"/{scene.path}/?to=latest", sent).content.decode()
    assert f"the group is {group.name}" in refused
    answer = client.post(f"/{scene.path}/?to=latest", sent | {"typed": group.name})
    assert answer.status_code == 302
    page = client.get(f"/groups/{group.name}/partitions/{NUMBER}/").content.decode()
    assert '<table id="offset-jumps">' in page


def test_a_viewer_sets_nothing(user: User, scene: Scene) -> None:
    client: Client = logged_in(user)
    assert client.get(f"/{scene.path}/").status_code == 403
    asked = {"to": "earliest", "seen": "x"}
    assert "takes the role operator" in problem(Program.of(user).post(scene.path, asked), 403)
