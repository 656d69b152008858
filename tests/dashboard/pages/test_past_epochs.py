"""?epoch= and ?epoch=&vs= of a group's map; what its picture is drawn from: map.bin, changes."""

import json
import re
from typing import Any

import numpy as np
import pytest
from django.test import Client

from dashboard.models import Group, Rebalance
from dashboard.pages import texts
from dashboard.pages.views import base
from dashboard.records.queries import intervals
from tests.dashboard.agents import FakeAgent
from tests.dashboard.pages.past_pages import Events, page, replay, shown
from tests.dashboard.scaling import Scene


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("?vs=17", "vs=&#x27;17&#x27;"),
        ("?vs=17&at=2026-01-01", "vs=&#x27;17&#x27;"),
        ("?epoch={}&vs=soon", "vs=&#x27;soon&#x27;"),
        ("?epoch=soon&vs=17", "epoch=&#x27;soon&#x27;"),
    ],
)
def test_what_are_no_two_epochs_is_named(
    visitor: Client, group: Group, agents: list[FakeAgent], query: str, named: str
) -> None:
    row = group.rebalances.get()
    answer = visitor.get(f"/groups/{group.name}/{query.format(row.target_epoch)}")
    assert answer.status_code == 400
    assert named in answer.content.decode().replace("Vs=", "vs=").replace("Epoch=", "epoch=")


def test_an_epoch_is_the_map_as_its_round_ended(
    visitor: Client, group: Group, handed: Events
) -> None:
    rounds = list(group.rebalances.order_by("target_epoch"))
    assert len(rounds) >= 3
    for row in rounds:
        assert row.finished_at_ms is not None
        text = page(visitor, group, f"?epoch={row.target_epoch}")
        assert shown(text) == replay(handed, row.finished_at_ms)
        assert f"epoch {row.target_epoch}</a>" in text
        exact = page(visitor, group, f"?epoch={row.incarnation}.{row.target_epoch}")
        assert shown(exact) == shown(text)


def test_an_epoch_that_goes_on_says_so(visitor: Client, group: Group, handed: Events) -> None:
    row = group.rebalances.first()
    assert row
    Rebalance.objects.filter(pk=row.pk).update(finished_at_ms=None, outcome="running")
    assert "goes on" in page(visitor, group, f"?epoch={row.target_epoch}")


def test_two_epochs_say_what_moved_and_why(visitor: Client, group: Group, handed: Events) -> None:
    rows = list(group.rebalances.order_by("target_epoch"))
    first, last = rows[0], rows[-1]
    text = page(visitor, group, f"?epoch={first.target_epoch}&vs={last.target_epoch}")
    before, after = (replay(handed, row.finished_at_ms or 0) for row in (first, last))
    differ = {n for n in range(4) if before[n][0] != after[n][0]}
    table = re.search(r'<table id="moved">(.*?)</table>', text, re.DOTALL)
    assert table
    assert {int(n) for n in re.findall(r'data-number="(\d+)"', table[1])} == differ
    to_c = {n for n in differ if after[n][0] == "c"}
    why = re.findall(r'data-number="(\d+)".*?>epoch\s+(\d+)</a>: (.*?)</td>', table[1], re.DOTALL)
    causes = {int(n): re.sub("<[^>]*>", "", said) for n, _, said in why}
    assert causes.keys() == differ
    joined = [row for row in rows if any(move.after == "c" for move in row.moves())]
    assert {int(epoch) for n, epoch, _ in why if int(n) in to_c} == {joined[-1].target_epoch}
    assert len(re.findall("<canvas", text)) == 2
    assert "not live" in text


def test_the_same_epoch_twice_moves_nothing(visitor: Client, group: Group, handed: Events) -> None:
    row = group.rebalances.first()
    assert row
    text = page(visitor, group, f"?epoch={row.target_epoch}&vs={row.target_epoch}")
    assert "Every partition has the same owner in both" in text


def test_bytes_are_the_map_with_names_and_hues(
    visitor: Client, group: Group, handed: Events
) -> None:
    at_ms = handed[-1].at_ms
    told = visitor.get(f"/groups/{group.name}/map.bin?at={at_ms}").content
    length = int.from_bytes(told[:4], "little")
    head = json.loads(told[4 : 4 + length])
    assert (head["at_ms"], head["stream"], head["size"]) == (at_ms, group.stream, 4)
    assert all(hue is not None for hue in head["hues"])
    fences = np.frombuffer(told, "<f8", 4, 4 + length).astype(int).tolist()
    owners = np.frombuffer(told, "<i4", 4, 4 + length + 64).tolist()
    found = {n: (head["names"][owners[n]], fences[n]) for n in range(4) if owners[n] >= 0}
    assert found == replay(handed, at_ms)
    assert visitor.get(f"/groups/{group.name}/map.bin").status_code == 400


@pytest.mark.usefixtures("store")
def test_the_map_names_who_learned_and_who_stood_by(visitor: Client, group_name: str) -> None:
    scene = Scene(group_name, standby_replicas=1)
    scene.round()
    at_ms = base.now_ms()
    told = visitor.get(f"/groups/{group_name}/map.bin?at={at_ms}").content
    head = json.loads(told[4 : 4 + int.from_bytes(told[:4], "little")])
    named = head["replicas"]
    wanted = intervals.replicas_at(scene.group, at_ms, range(head["size"]))
    assert named.keys() == wanted.keys() and named["standby"]
    for kind, members in named.items():
        numbers = {n: [m for m, its in members.items() if n in its] for n in wanted[kind]}
        assert numbers == wanted[kind]
    assert head["others"].keys() == {*named["standby"], *named["learning"]} - {*head["names"]}
    assert all(hue is not None for hue in head["others"].values())


def test_an_epochs_changes_lead_from_the_map_before_to_its_end(
    visitor: Client, group: Group, handed: Events
) -> None:
    row = group.rebalances.order_by("target_epoch")[1]
    told: Any = visitor.get(f"/groups/{group.name}/changes.json?epoch={row.target_epoch}").json()
    found = replay(handed, row.at_ms - 1)
    for _, number, owner, fence in told["changes"]:
        if owner >= 0:
            found[number] = told["names"][owner], fence
        elif number in found and found[number][1] == fence:
            del found[number]
    assert told["changes"]
    assert found == replay(handed, row.finished_at_ms or 0)
    answer = visitor.get(f"/groups/{group.name}/changes.json?at={handed[0].at_ms}")
    assert answer.status_code == 400


def test_a_tick_for_each_epoch_and_links_without_script(
    visitor: Client, group: Group, handed: Events
) -> None:
    epochs = [row.target_epoch for row in group.rebalances.order_by("target_epoch")]
    live = page(visitor, group, "")
    assert [int(e) for e in re.findall(r'<a href="\?epoch=(\d+)" tabindex', live)] == epochs
    assert _link(live, "[") == f"?epoch={epochs[-1]}"
    assert _link(live, "]") is None
    second = page(visitor, group, f"?epoch={epochs[1]}")
    assert _link(second, "[") == f"?epoch={epochs[0]}"
    assert _link(second, "]") == f"?epoch={epochs[2]}"
    assert f'href="?epoch={epochs[0]}&amp;vs={epochs[1]}"' in second
    last = page(visitor, group, f"?epoch={epochs[-1]}")
    assert _link(last, "]") == f"/groups/{group.name}/"
    first = page(visitor, group, f"?epoch={epochs[0]}")
    assert _link(first, "[") is None
    steps = re.findall(r'<a href="\?at=([^"]+)">', second)
    row = group.rebalances.get(target_epoch=epochs[1])
    within = {e.at_ms for e in handed if row.at_ms <= e.at_ms <= (row.finished_at_ms or 0)}
    assert {texts.parse_moment(step) for step in steps} == within


def _link(text: str, key: str) -> str | None:
    for tag in re.findall(r"<a class=\"button small\"[^>]*>", text):
        if f'data-key="{key}"' in tag:
            return re.search(r'href="([^"]*)"', tag)[1]  # type: ignore[index]
    return None
