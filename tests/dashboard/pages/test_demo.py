"""/demo/: there while `up` runs the demo; adds a consumer, removes one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.demo import requests
from dashboard.models import AuditEntry, Group, Plan, ScaleDown
from dashboard.pages.views import demo as page
from tests.dashboard.agents import FakeAgent
from tests.dashboard.people import granted, logged_in
from tests.dashboard.scaling import Scene


@pytest.fixture
def data(tmp_path: Path, settings: Settings) -> Path:
    settings.DATA = tmp_path
    requests.serve(tmp_path)
    return tmp_path


@pytest.fixture
def scene(
    store: object, group_name: str, db: None, data: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    monkeypatch.setattr(page, "GROUP", group_name)
    yield Scene(group_name)


def shown(visitor: Client) -> str:
    return visitor.get("/demo/").content.decode()


def test_without_a_demo_there_is_neither_page_nor_link(
    visitor: Client, tmp_path: Path, settings: Settings
) -> None:
    settings.DATA = tmp_path
    assert visitor.get("/demo/").status_code == 404
    assert visitor.post("/demo/", {"do": "add"}).status_code == 404
    assert 'href="/demo/"' not in visitor.get("/").content.decode()


def test_pages_link_to_it_while_it_runs(visitor: Client, scene: Scene) -> None:
    assert 'href="/demo/"' in visitor.get("/").content.decode()
    found = re.findall(r'<tr data-member="(\w+)" data-state="(\w+)"', shown(visitor))
    assert found == [("S1", "alive"), ("S2", "alive"), ("S3", "alive")]


def test_a_consumer_is_asked_for(visitor: Client, scene: Scene, data: Path) -> None:
    assert visitor.post("/demo/", {"do": "add"})["Location"] == "/demo/"
    (request,) = requests.waiting(data)
    assert (request.do, request.actor) == ("add", "ann")
    assert "1 asked for" in shown(visitor)
    entry = AuditEntry.objects.get(action="add demo consumer")
    assert (entry.actor, entry.source, entry.after) == ("ann", "page", {"request": request.id})


def test_what_the_tree_refused_is_said(visitor: Client, scene: Scene, data: Path) -> None:
    visitor.post("/demo/", {"do": "add"})
    requests.refuse(data, requests.waiting(data)[0].id, "900 MiB are needed and 100 are free")
    assert re.search("No consumer was added, .* ago: 900 MiB are needed", shown(visitor))


def test_too_many_at_once_are_refused(visitor: Client, scene: Scene, data: Path) -> None:
    for _ in range(requests.WAITING_MAX + 1):
        answer = visitor.post("/demo/", {"do": "add"}, follow=True)
    assert "5 consumers are on their way already" in answer.content.decode()
    assert len(requests.waiting(data)) == requests.WAITING_MAX
    entry = AuditEntry.objects.get(action="add demo consumer", result__startswith="refused")
    assert (entry.actor, entry.group) == ("ann", scene.group.name)
    assert "5 consumers are on their way already" in entry.result


def test_who_asks_for_one_is_on_record_before_it_is_asked(
    visitor: Client, scene: Scene, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        assert AuditEntry.objects.filter(action="add demo consumer", result="done").exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(requests, "_write", full)
    answer = visitor.post("/demo/", {"do": "add"}, follow=True)
    assert "cannot be asked: No space left on device" in answer.content.decode()
    entry = AuditEntry.objects.get(action="add demo consumer", result__startswith="refused")
    assert entry.result.endswith("No space left on device")


def test_one_is_taken_away_by_a_scale_down(visitor: Client, scene: Scene) -> None:
    visitor.post("/demo/", {"take": "S2"})
    row = scene.scale_down()
    assert (list(row.members), row.actor, row.timeout_ms) == (["S2"], "ann", None)
    said = shown(visitor)
    assert said.count("disabled") == 3
    assert f"/groups/{scene.group.name}/scale-down/{row.pk}/" in said
    answer = visitor.post("/demo/", {"take": "S1"}, follow=True)
    assert "another scale-down runs" in answer.content.decode()
    assert ScaleDown.objects.count() == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"take": "S9"}, "S9"),
        ({"take": ""}, "Take= is empty"),
        ({"do": "end"}, "Do=&#x27;end&#x27; is none of add"),
        ({"do": "add", "many": "9"}, "There is no field &#x27;many&#x27;"),
        ({}, "Take= is empty"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    visitor: Client, scene: Scene, data: Path, values: dict[str, str], said: str
) -> None:
    answer = visitor.post("/demo/", values, follow=True)
    assert answer.status_code == (200 if said == "S9" else 400)
    assert said in answer.content.decode()
    assert not ScaleDown.objects.exists()
    assert requests.waiting(data) == []


def test_a_demo_without_state_lets_nobody_leave(
    visitor: Client,
    group: Group,
    agents: list[FakeAgent],
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "GROUP", group.name)
    assert "not stateful" in shown(visitor)


def test_the_fragment_is_a_part(visitor: Client, scene: Scene) -> None:
    part = visitor.get("/demo/?fragment=demo").content.decode()
    assert "<html" not in part
    assert "Add a consumer" in part


@pytest.mark.parametrize(
    ("effect", "said"),
    [("", "takes the role operator or admin"), ("stage", "needs approval"), ("deny", "takes the")],
)
@pytest.mark.parametrize("values", [{"do": "add"}, {"take": "S2"}])
def test_who_may_scale_other_groups_down_does_neither_here(
    scene: Scene, data: Path, values: dict[str, str], effect: str, said: str
) -> None:
    """The page has no group in its address: what is done asks for the very one."""
    carl = User.objects.create(username="carl")
    granted(carl, "operator", "another-*")
    if effect:
        granted(carl, "operator", scene.group.name, effect)
    client = logged_in(carl)
    assert client.get("/demo/").status_code == 200
    answer = client.post("/demo/", values, follow=True)
    if effect == "stage" and "take" in values:
        assert "To remove S2 is proposed as a plan" in answer.content.decode()
        assert (Plan.objects.get().state, ScaleDown.objects.count()) == ("proposed", 0)
        return
    assert answer.status_code == 403 and said in answer.content.decode()
    assert not requests.waiting(data) and not ScaleDown.objects.exists()
    entry = AuditEntry.objects.get(action="scale down")
    assert (entry.actor, entry.group) == ("carl", scene.group.name)
    assert entry.result.startswith("denied")


def test_from_whom_its_group_is_hidden_there_is_no_demo(scene: Scene, data: Path) -> None:
    carl = User.objects.create(username="carl")
    granted(carl, "operator")
    granted(carl, "viewer", scene.group.name, "deny")
    client = logged_in(carl)
    assert 'href="/demo/"' not in client.get("/").content.decode()
    for answer in (client.get("/demo/"), client.post("/demo/", {"do": "add"})):
        assert answer.status_code == 404
        assert not re.search(r"\bS2\b", answer.content.decode())  # a token may have such letters
    assert not requests.waiting(data)
