"""GET /groups/<name>/dead-letters/ and the same by the API: looked at, discarded, on record."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.scripts import dead_letters as scripts
from assignment.types import Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard.actions import dead_letters as actions
from dashboard.live import dead_letters as live
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AuditEntry, Group
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.people import granted, logged_in

Kept = dict[int, list[str]]  # by partition, in the order of their ids


def key(group: Group, number: int) -> str:
    return GroupKeys(group.name).dead(Partition(group.stream, number))


@pytest.fixture
def letters(group: Group, store: Any) -> str:
    """Partition 0 has 1-0 to 3-0, partition 2 has 1-0 and what no consumer wrote."""
    for number, n, reason, raw in (
        (0, 1, "not an event: <b>", b'{"name": "ann", "n": "x"}'),
        (0, 2, "Skipped by ann: no use", b"lines ann"),
        (0, 3, "not an event: again", b"\xff<i>ann</i>"),
        (2, 1, "not an event: there", b"x" * 5_000),
    ):
        said = {"reason": reason, "entry": f"{n}-7", "index": "4", "raw": raw, "fence": "9"}
        store.xadd(key(group, number), said, id=f"{n}-0")
    store.xadd(key(group, 2), {b"\xff": b"\xff", "index": "many"}, id="2-0")
    return f"groups/{group.name}/dead-letters"


def left(group: Group, store: Any) -> Kept:
    found = {n: store.xrange(key(group, n)) for n in range(group.partitions)}
    return {n: [one.decode() for one, _ in rows] for n, rows in found.items() if rows}


def names(found: Any) -> list[str]:
    return [one["letter"] for one in found["letters"]]


def test_the_page_shows_them_as_they_lie_there(visitor: Client, group: Group, letters: str) -> None:
    page = visitor.get(f"/{letters}/").content.decode()
    order = [f'data-key="{name}"' for name in ("0/3-0", "0/2-0", "0/1-0", "2/2-0", "2/1-0")]
    assert sorted(order, key=page.index) == order
    assert "not an event: &lt;b&gt;" in page
    assert "\\xff&lt;i&gt;ann&lt;/i&gt;" in page
    assert "x" * 1_000 in page and "x" * 1_001 not in page
    assert "5 in 2 partitions" in " ".join(page.split())
    kept = AuditEntry.objects.latest("seq")
    assert (kept.actor, kept.action, kept.object) == ("ann", "look at dead letters", group.name)
    assert kept.after["letters"][f"{group.stream}:0"] == ["3-0", "2-0", "1-0"]
    page = visitor.get(f"/{letters}/?partition=0&reason=SKIPPED").content.decode()
    assert 'data-key="0/2-0"' in page and 'data-key="0/3-0"' not in page
    for query, why in (("partition=9", "one of 0 to 3"), ("cursor=0-0", "partition/ms-seq")):
        assert why in visitor.get(f"/{letters}/?{query}").content.decode()


def test_where_fields_are_masked_only_what_can_be_is_shown(
    user: User, group: Group, letters: str
) -> None:
    granted(user, "auditor")
    group.settings |= {"masked_fields": ["Name"]}
    group.save()
    page = logged_in(user).get(f"/{letters}/?partition=0").content.decode()
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    assert "ann</i>" not in table and "lines ann" not in table
    assert table.count("Not shown as it lies there") == 2
    found = read(Program.of(user).get(letters, partition=0))
    assert [one["raw"] for one in found["letters"]] == [None, None, '{"name": "••••", "n": "x"}']


def test_they_come_in_pieces(user: User, letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    granted(user, "operator")
    program, cursor, found = Program.of(user), "", []
    while cursor is not None:
        piece = read(program.get(letters, limit=2, cursor=cursor))
        found += names(piece)
        cursor = piece["next"]
    assert found == ["0/3-0", "0/2-0", "0/1-0", "2/2-0", "2/1-0"]
    assert piece["kept"] == {"0": 3, "2": 2}
    assert piece["letters"][0]["size"] == 5_000 and len(piece["letters"][0]["raw"]) == 1_000
    monkeypatch.setattr(actions, "THROUGH_MAX", 30)
    assert read(program.get(letters, reason="there"))["next"] == "0/3-0"
    assert names(read(program.get(letters, reason="there", cursor="0/1-0"))) == ["2/1-0"]


@pytest.mark.parametrize(
    "who", [("operator", 200, 200), ("auditor", 200, 403), ("viewer", 403, 403)]
)
def test_they_take_the_rights_to_look_and_to_discard(
    user: User, group: Group, letters: str, store: Any, who: tuple[str, int, int]
) -> None:
    role, looks, discards = who
    granted(user, role)
    client, program = logged_in(user), Program.of(user)
    assert client.get(f"/{letters}/").status_code == looks
    assert program.get(letters).status_code == looks
    sent = {"do": "found", "until": "1", "reason": "why"}
    assert client.post(f"/{letters}/", sent).status_code == (302 if discards == 200 else 403)
    assert program.post(f"{letters}/discard", {"found": {}}).status_code == discards
    assert program.post(f"{letters}/replay", {"found": {}}).status_code == discards
    assert bool(left(group, store)) is (discards == 403)
    members = client.get(f"/groups/{group.name}/members/").content.decode()
    assert ("/dead-letters/" in members) is (looks == 200)


def test_the_chosen_ones_are_discarded_once_and_on_record_by_their_ids(
    visitor: Client, group: Group, letters: str, store: Any
) -> None:
    form = {"do": "chosen", "until": "9", "letter": ["0/1-0", "2/1-0"], "reason": "no use"}
    page = visitor.post(f"/{letters}/", form, follow=True).content.decode()
    assert "2 dead letters discarded." in page
    assert left(group, store) == {0: ["2-0", "3-0"], 2: ["2-0"]}
    kept = AuditEntry.objects.get(action="discard dead letters")
    assert (kept.actor, kept.reason, kept.object) == ("ann", "no use", group.name)
    assert kept.before == {"letters": {f"{group.stream}:0": ["1-0"], f"{group.stream}:2": ["1-0"]}}
    answer = visitor.post(f"/{letters}/?partition=2&reason=a+b&cursor=0/1-0", form)
    assert answer["Location"] == f"/{letters}/?partition=2&reason=a+b"
    page = visitor.get(answer["Location"]).content.decode()
    assert "0 dead letters discarded." in page
    assert AuditEntry.objects.filter(action="discard dead letters").count() == 1


def test_what_is_meant_wrongly_discards_nothing(
    visitor: Client, group: Group, letters: str, store: Any
) -> None:
    before, fine = left(group, store), {"do": "found", "until": "9", "reason": "why"}
    for query, form, why in (
        ("partition=x", fine, "is not a partition"),
        ("partition=9", fine, "one of 0 to 3"),
        ("", fine | {"until": ""}, "until: "),
        ("", fine | {"reason": ""}, "reason: "),
        ("", fine | {"do": "chosen"}, "no dead letter is chosen"),
        ("", fine | {"do": "chosen", "letter": "x"}, "is no dead letter"),
        ("", fine | {"do": "chosen", "letter": "9/1-0"}, "there is no partition 9"),
    ):
        answer = visitor.post(f"/{letters}/?{query}", form)
        assert answer.status_code == 200 and why in answer.content.decode(), why
    assert left(group, store) == before


def test_what_a_filter_finds_is_discarded_up_to_a_moment_and_a_number(
    user: User, group: Group, letters: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(user, "operator")
    program, address = Program.of(user), f"{letters}/discard"
    meant = {"partition": 0, "reason": "not an event", "until_ms": 2}
    done = read(program.post(address, {"found": meant}))
    assert done == {"letters": ["0/1-0"], "waiting": 0, "more": False}
    kept = AuditEntry.objects.get(action="discard dead letters")
    assert (kept.source, kept.object) == ("api", f"{group.stream}:0")
    monkeypatch.setattr(actions, "AT_ONCE_MAX", 1)
    done = read(program.post(address, {"found": {"reason": "NOT AN"}, "reason": "why"}))
    assert done == {"letters": ["0/3-0"], "waiting": 0, "more": True}
    assert left(group, store) == {0: ["2-0"], 2: ["1-0", "2-0"]}
    assert "one of them" in problem(program.post(address, {}), 422)
    assert "at most 1" in problem(program.post(address, {"letters": ["0/2-0", "2/1-0"]}), 422)


def last_id(group: Group, store: Any, number: int) -> str:
    return str(store.xinfo_stream(StreamKeys(group.stream).entries(number))["last-generated-id"])


def test_what_is_chosen_to_be_replayed_waits_stays_and_is_on_record(
    visitor: Client, user: User, group: Group, letters: str, store: Any
) -> None:
    before, form = left(group, store), {"do": "replay_chosen", "until": "9", "reason": "repaired"}
    chosen = form | {"letter": ["0/1-0", "0/3-0", "2/2-0", "1/9-0"]}
    page = visitor.post(f"/{letters}/", chosen, follow=True).content.decode()
    assert "2 dead letters asked to be replayed. 1 cannot be replayed: since" in page
    assert "1 are gone." in page
    assert " ".join(page.split()).count("Waits, asked by ann") == 2
    assert page.count("No: its event may be read") == 1
    kept = AuditEntry.objects.get(action="replay dead letters")
    assert (kept.actor, kept.reason, kept.object) == ("ann", "repaired", group.name)
    assert kept.after == {"letters": {f"{group.stream}:0": ["1-0", "3-0"]}}
    assert last_id(group, store, 0) == "b'0-2'"
    page = visitor.post(f"/{letters}/", chosen, follow=True).content.decode()
    assert "0 dead letters asked to be replayed." in page and "2 waited already." in page
    assert AuditEntry.objects.filter(action="replay dead letters").count() == 1
    assert last_id(group, store, 0) == "b'0-4'", "what may have failed before is made up for"
    page = visitor.post(f"/{letters}/", chosen | {"do": "chosen"}, follow=True).content.decode()
    assert "1 dead letter discarded. 2 wait to be replayed, and stay." in page
    assert left(group, store) == before | {2: ["1-0"]}


def test_what_a_filter_finds_is_asked_to_be_replayed(
    user: User, group: Group, letters: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted(user, "operator")
    program, address = Program.of(user), f"{letters}/replay"
    monkeypatch.setattr(scripts, "WAITING_MAX", 1)
    meant = {"partition": 0, "reason": "not an event", "until_ms": 3}
    none = {"waiting": 0, "gone": 0, "full": 0, "doubted": 0, "more": False}
    done = read(program.post(address, {"found": meant, "reason": "why"}))
    assert done == none | {"letters": ["0/3-0"], "full": 1}
    assert read(program.post(address, {"letters": ["0/3-0", "2/2-0"]})) == none | {
        "letters": [],
        "waiting": 1,
        "doubted": 1,
    }
    kept = AuditEntry.objects.get(action="replay dead letters")
    assert (kept.source, kept.object, kept.reason) == ("api", f"{group.stream}:0", "why")
    told = read(program.get(letters))["letters"]
    assert [(x["letter"], x["asked_by"], x["replayable"]) for x in told] == [
        ("0/3-0", user.username, True),
        *((name, None, True) for name in ("0/2-0", "0/1-0")),
        ("2/2-0", None, False),
        ("2/1-0", None, True),
    ]
    assert "one of them" in problem(program.post(address, {}), 422)
    assert "no dead letter is chosen" in problem(program.post(address, {"letters": []}), 422)


def test_what_is_asked_is_on_record_though_its_stream_did_not_answer(
    user: User, group: Group, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise StoreUnavailable("it is away")

    granted(user, "operator")
    monkeypatch.setattr(live, "make_room", away)
    assert Program.of(user).post(f"{letters}/replay", {"found": {}}).status_code == 503
    kept = AuditEntry.objects.filter(action="replay dead letters").order_by("seq")
    said = [(entry.result.partition(":")[0], bool(entry.after)) for entry in kept]
    assert said == [("done", True), ("failed", False)]
