"""What cannot be, in Redis and in rows that were stored before: every page answers."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.live import groups as live_groups
from dashboard.live import health
from dashboard.models import Group, HistoryGap, MemberRecord, Rebalance, Sample, Tenure
from dashboard.pages import texts
from tests.dashboard.agents import FakeAgent, make_group, tick
from tests.dashboard.people import granted, logged_in

pytestmark = pytest.mark.django_db
MOST = 2**53 - 1
HUGE = 10**300
OF_ALL = ("/", "/groups/", "/groups/?format=csv", "/status/", "/audit/", "/audit/?format=csv")
OF_GROUP = (
    *("", "members/", "partitions/", "partitions/0/", "partitions/1/", "balance/", "history/"),
    *("history/?format=csv", "settings/", "scale-down/", "rebalance/", "map/", f"?at={10**13}"),
)


@pytest.fixture
def pair(store: Any, group_name: str) -> tuple[Group, Group]:
    """Two groups with a member, a rebalance and a history each."""
    made = (make_group(f"a-{group_name}"), make_group(f"b-{group_name}"))
    for group in made:
        agent = FakeAgent(group, "a")
        agent.start()
        coordinator.rebalance(group.name)
        agent.follow()
    tick()
    coordinator.sample()
    return made


@pytest.fixture
def visitor(db: None) -> Client:
    user = User.objects.create_user("ann")
    granted(user, "admin")
    client = logged_in(user)
    client.raise_request_exception = False
    return client


def failing(visitor: Client, pair: tuple[Group, Group]) -> list[tuple[str, int]]:
    group, other = pair
    urls = [*OF_ALL, *(f"/groups/{group.name}/{page}" for page in OF_GROUP)]
    urls += [f"/groups/{other.name}/"]
    answers = ((url, visitor.get(url).status_code) for url in urls)
    return [(url, status) for url, status in answers if status >= 500]


def forged_record(group: Group, **columns: Any) -> dict[str, Any]:
    """As an entry of the outbox."""
    row = Rebalance.objects.filter(group=group)[0]
    packed = {
        name: base64.b64encode(bytes(getattr(row, name))).decode()
        for name in ("target", "previous")
    }
    words = {"cause": "join", "strategy": "sticky", "celery_task_id": "", "celery_worker": "w"}
    counts = ("detect_ms", "kept", "moved", "avoidable", "learning", "max_minus_min", "compute_ms")
    shares = ("balance_degree", "score", "stickiness", "stickiness_best")
    record = {
        "at_ms": 5,
        "partitions": 4,
        "members": 1,
        "causes": [],
        "requests": [],
        "replicas": None,
        **dict.fromkeys(counts, 0),
        **dict.fromkeys(shares, 0.5),
        **words,
        **packed,
        **columns,
    }
    return {"incarnation": 1, "epoch": 2, "record": json.dumps(record)}


def event(group: Group, **fields: Any) -> dict[str, Any]:
    sound = {"seq": 4, "type": "acquired", "member": "z", "fence": 2**32 + 9, "at_ms": 5}
    return sound | {"partition": f"{group.stream}:1"} | fields


def member(**times: int) -> str:
    return json.dumps({"secret": "x", "host": "h", "able": True, "joined_at_ms": 1, **times})


Forge = Callable[[Any, Group, GroupKeys, str], object]
STOPPING = {"meta times", "away", "grants", "applied", "applied below 0", "committed in years"}
CASES: dict[str, Forge] = {
    "record at": lambda s, g, k, p: s.xadd(k.outbox, forged_record(g, at_ms=MOST)),
    "record ahead": lambda s, g, k, p: s.xadd(
        k.outbox, forged_record(g, at_ms=live_groups.redis_now_ms() + 2 * 86_400_000)
    ),
    "record took": lambda s, g, k, p: s.xadd(k.outbox, forged_record(g, detect_ms=2**63 - 1)),
    "event at": lambda s, g, k, p: s.xadd(k.events, event(g, at_ms=MOST)),
    "event seq": lambda s, g, k, p: s.xadd(k.events, event(g, seq=MOST)),
    "event fence": lambda s, g, k, p: s.xadd(k.events, event(g, fence=MOST)),
    "hint": lambda s, g, k, p: s.xadd(
        k.control, {"reason": "join", "epoch": "3", "member": "a"}, id=f"{2**63}-1"
    ),
    "since": lambda s, g, k, p: s.hset(k.since, p, f"{HUGE} {HUGE}"),
    "since is no text": lambda s, g, k, p: s.hset(k.since, p, b"\xff"),
    "coordinator": lambda s, g, k, p: s.set(k.coordinator, b"\xff\xfe"),
    "coordinator is a hash": lambda s, g, k, p: s.hset(k.coordinator, "a", "b"),
    "applied": lambda s, g, k, p: s.hset(k.applied, p, f"{HUGE} {HUGE}"),
    "applied below 0": lambda s, g, k, p: s.hset(k.applied, p, f"-5 -{HUGE}"),
    "committed in years": lambda s, g, k, p: s.hset(k.applied, p, f"5 {MOST}"),
    "meta times": lambda s, g, k, p: s.hset(k.meta, "target_at_ms", MOST),
    "away": lambda s, g, k, p: s.hset(k.meta, "away", f"-{HUGE}-{HUGE}"),
    "member": lambda s, g, k, p: s.hset(k.members, "a", member(joined_at_ms=MOST)),
    "member of years": lambda s, g, k, p: s.hset(k.members, "a", member(joined_at_ms=10**14)),
    "beat": lambda s, g, k, p: s.zadd(k.beats, {"a": float("inf")}),
    "grants": lambda s, g, k, p: s.hset(k.grants, p, f"0 z {HUGE} -"),
}


@pytest.mark.parametrize("case", list(CASES))
def test_what_a_group_has_in_redis_fails_no_page_and_is_not_stored(
    visitor: Client, pair: tuple[Group, Group], store: Any, case: str
) -> None:
    group, other = pair
    before = stored_times()
    CASES[case](store, group, GroupKeys(group.name), f"{group.stream}:1")
    for _ in range(2):
        tick()
    coordinator.sample()
    assert failing(visitor, pair) == []
    assert health.look().failing_named == ((group.name,) if case in STOPPING else ())
    assert max(stored_times()) <= live_groups.redis_now_ms() + 86_400_000
    assert len(stored_times()) >= len(before)
    other.refresh_from_db()
    assert other.incarnation == 1


def stored_times() -> list[int]:
    found: list[int | None] = [
        *Rebalance.objects.values_list("at_ms", flat=True),
        *Rebalance.objects.values_list("finished_at_ms", flat=True),
        *Tenure.objects.values_list("started_ms", flat=True),
        *Tenure.objects.values_list("ended_ms", flat=True),
        *MemberRecord.objects.values_list("joined_at_ms", flat=True),
        *MemberRecord.objects.values_list("left_at_ms", flat=True),
        *HistoryGap.objects.values_list("at_ms", flat=True),
    ]
    return [at_ms for at_ms in found if at_ms is not None]


@pytest.mark.parametrize("at_ms", [MOST, -1, 2**63 - 1])
def test_what_stands_in_a_row_fails_no_page(
    visitor: Client, pair: tuple[Group, Group], at_ms: int
) -> None:
    group, _ = pair
    Rebalance.objects.filter(group=group).update(at_ms=at_ms, finished_at_ms=at_ms)
    Tenure.objects.filter(group=group).update(started_ms=at_ms, ended_ms=at_ms, refused_at_ms=at_ms)
    MemberRecord.objects.filter(group=group).update(joined_at_ms=at_ms, left_at_ms=at_ms)
    Sample.objects.filter(group=group).update(at_ms=at_ms)
    group.gaps.create(at_ms=at_ms, events_lost=1)
    group.mirror.create(number=0, offset=f"{10**19}9-0", total=at_ms)
    Group.objects.filter(pk=group.pk).update(last_event_seq=max(at_ms, 0))
    assert failing(visitor, pair) == []


def test_a_time_beyond_the_years_that_can_be_written_is_the_nearest_that_is() -> None:
    assert texts.exact(MOST) == "9999-12-31T23:59:59.999Z"
    assert texts.exact(-(2**63)) == "0001-01-01T00:00:00.000Z"
