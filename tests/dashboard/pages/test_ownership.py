"""GET /groups/<name>/ownership/, its picture as bytes, and who had a partition at a moment."""

import json
import re
import struct
from typing import Any

import numpy as np
import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.models import Group, Tenure
from dashboard.pages import picture, pixels
from dashboard.pages.pixels import OWNER, Frame
from dashboard.records.queries import colours
from dashboard.records.queries.intervals import Intervals
from dashboard.records.queries.marks import Mark, MarkKind
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle


def decoded(body: bytes) -> tuple[dict[str, Any], list[list[list[int]]]]:
    """(head, the codes of each layer's lines)"""
    (length,) = struct.unpack_from("<I", body)
    head, at = json.loads(body[4 : 4 + length]), 4 + length
    counts = [count for _, count in head["layers"]]
    ends, codes = [], []
    for count in counts:
        ends.append(struct.unpack_from(f"<{count}H", body, at))
        at += 2 * count
    for count in counts:
        codes.append(body[at : at + count])
        at += count
    assert at == len(body)
    return head, [
        _lines(width, *parts)
        for (width, _), *parts in zip(head["layers"], ends, codes, strict=True)
    ]


def _lines(width: int, ends: tuple[int, ...], codes: bytes) -> list[list[int]]:
    lines: list[list[int]] = [[]]
    for end, code in zip(ends, codes, strict=True):
        lines[-1] += [code] * (end - len(lines[-1]))
        if end == width:
            lines.append([])
    return lines[:-1]


def asked(visitor: Client, group: Group, query: str = "") -> tuple[dict[str, Any], Any]:
    answer = visitor.get(f"/groups/{group.name}/ownership/picture{query}")
    assert answer.status_code == 200, answer.content
    return decoded(answer.content)


def test_the_picture_shows_the_owners_by_their_hues(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    head, (owners, learners, standbys) = asked(visitor, group, "?width=60")
    assert head["lines"] == [0, 1, 2, 3]
    hues = colours.of_group(group.pk)
    for row in Tenure.objects.filter(group=group):
        line = owners[row.number]
        assert len(line) == 60
        assert line[0] == pixels.NOTHING, "before it was first owned"
        assert line[-1] == OWNER + hues[row.member_id]
    assert {code for line in learners + standbys for code in line} == {pixels.NOTHING}
    rebalance = group.rebalances.get()
    address = f"{rebalance.incarnation}/{rebalance.target_epoch}/"
    assert head["marks"] == [["rebalance", rebalance.at_ms, 1, "join", address]]
    assert visitor.get(f"/groups/{group.name}/history/{address}").status_code == 200


def test_a_handover_leaves_a_gap_that_is_red(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    row = Tenure.objects.get(group=group, number=0)
    began_ms = row.started_ms - 10_000  # what is shown is past, however quick the test is
    Tenure.objects.filter(pk=row.pk).update(
        started_ms=began_ms, ended_ms=began_ms + 10, end="expired"
    )
    query = f"?from={began_ms}&to={began_ms + 40}&width=40&first=0&last=0"
    _, (owners, *_) = asked(visitor, group, query)
    hue = colours.of_group(group.pk)[row.member_id]
    assert owners == [[OWNER + hue] * 10 + [pixels.GAP] * 30]


@pytest.mark.usefixtures("store")
def test_learners_and_standbys_have_lines_of_their_own(visitor: Client, group_name: str) -> None:
    scene = Scene(group_name, standby_replicas=1)
    scene.round()
    head, (owners, _, standbys) = asked(visitor, scene.group)
    assert len(standbys) == len(owners) == len(head["lines"])
    hues = {OWNER + hue for hue in colours.of_group(scene.group.pk).values()}
    last = [line[-1] for line in standbys]
    assert {*last} <= hues
    assert all(code != owner[-1] for code, owner in zip(last, owners, strict=True))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from=noon", "time 'noon' is not like"),
        ("to=soon", "time 'soon' is not like"),
        ("from=2026-01-02&to=2026-01-01", "from 2026-01-02T00:00:00.000Z is not before to"),
        ("first=-1", "first '-1' is not a whole number"),
        ("last=4", "last 4 is not between 0 and 3"),
        ("first=3&last=1", "first 3 is not up to last 1"),
        ("rows=0", "rows 0 is not between 1 and 1000"),
        ("rows=1001", "rows 1001 is not between 1 and 1000"),
        ("width=15", "width 15 is not between 16 and 4000"),
        ("width=4001", "width 4001 is not between 16 and 4000"),
        ("width=wide", "width 'wide' is not a whole number"),
        ("span=1y", "span '1y' is not one of the choices"),
        ("colour=red", "there is no parameter 'colour'"),
    ],
)
def test_a_bad_value_is_named(visitor: Client, group: Group, query: str, said: str) -> None:
    answer = visitor.get(f"/groups/{group.name}/ownership/picture?{query}")
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_of_a_member_there_is_its_own_picture(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    mine = sorted(
        Tenure.objects.filter(group=group, member_id="a").values_list("number", flat=True)
    )
    head, (owners,) = asked(visitor, group, "?member=a")
    assert head["lines"] == [-1, *mine]
    hue = colours.of_group(group.pk)["a"]
    assert {line[-1] for line in owners} == {OWNER + hue}


def test_a_group_without_history_has_an_empty_picture(visitor: Client, group: Group) -> None:
    _, (owners, *_) = asked(visitor, group)
    assert {code for line in owners for code in line} == {pixels.NOTHING}
    page = visitor.get(f"/groups/{group.name}/ownership/").content.decode()
    assert "It begins when the first agent joins" in page


@pytest.mark.parametrize("query", ["from=0001-01-01&to=9999-12-31", "to=0001-01-02"])
def test_the_longest_and_the_earliest_time_have_a_picture(
    visitor: Client, group: Group, agents: list[FakeAgent], query: str
) -> None:
    head, _ = asked(visitor, group, f"?{query}&rows=1000&width=4000")
    assert head["from"] < head["to"]


@pytest.mark.parametrize(("lines", "layers"), [(1_000, 1), (64, 3), (1, 3)])
def test_no_picture_is_larger_than_is_said(lines: int, layers: int) -> None:
    """As many changes as are read, in as many lines and pixels as may be asked for."""
    count, to_ms = 200_000, 4_000
    line = np.repeat(np.arange(lines), count // lines)
    each = count // lines
    started = np.tile(np.arange(each) * to_ms // each, lines)
    found = Intervals(
        numbers=range(99_000, 99_000 + lines), line=line, started_ms=started,
        ended_ms=started + 1, hue=np.arange(line.size) % 10, from_ms=0,
    )  # fmt: skip
    frame = Frame(from_ms=0, to_ms=to_ms, until_ms=to_ms, width=to_ms)
    long = Mark(
        kind=MarkKind.REBALANCE, at_ms=2**42, what="w" * 200, epoch=(2**40, 2**40), count=5_000
    )
    body = picture.encoded(frame, found, [found] * (layers - 1), [long] * 360)
    assert len(body) <= picture.BYTES_MAX
    head, found_layers = decoded(body)
    assert [len(layer) for layer in found_layers] == [len(head["lines"])] * layers
    assert {*head["lines"]} <= {*found.numbers}
    assert len(head["lines"]) == lines or layers == 1


def test_the_picture_asks_nothing_of_redis(
    visitor: Client, group: Group, agents: list[FakeAgent], settings: Settings
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    head, _ = asked(visitor, group)
    assert head["lines"] == [0, 1, 2, 3]


# --- who ---


def who(visitor: Client, group: Group, number: int, at: object) -> Any:
    return visitor.get(f"/groups/{group.name}/partitions/{number}/owner.json?at={at}").json()


def test_who_had_it_at_a_moment(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    row = Tenure.objects.get(group=group, number=0)
    (found,) = who(visitor, group, 0, row.started_ms)["owners"]
    assert found["member"] == row.member_id
    assert found["hue"] == colours.of_group(group.pk)[row.member_id]
    assert found["fence"] == f"{row.fence >> 32}.{row.fence % 2**32}"
    assert (found["since_ms"], found["until_ms"], found["end"]) == (row.started_ms, None, None)


def test_where_nobody_had_it_who_was_last_and_who_came_next(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    row = Tenure.objects.get(group=group, number=0)
    early = who(visitor, group, 0, row.started_ms - 1)
    assert (early["owners"], early["last"], early["next_ms"]) == ([], None, row.started_ms)
    agents[0].leave()
    settle(group, agents[1:])
    ended = Tenure.objects.filter(group=group, member_id="a").earliest("number")
    Tenure.objects.filter(number=ended.number, fence__gt=ended.fence).update(
        started_ms=(ended.ended_ms or 0) + 50
    )
    gone = who(visitor, group, ended.number, (ended.ended_ms or 0) + 1)
    assert gone["owners"] == []
    assert (gone["last"]["member"], gone["last"]["end"]) == ("a", ended.end)
    assert gone["next_ms"] == (ended.ended_ms or 0) + 50


def test_what_is_no_moment_and_no_partition_is_named(visitor: Client, group: Group) -> None:
    address = f"/groups/{group.name}/partitions/{{}}/owner.json"
    answer = visitor.get(address.format(0) + "?at=noon")
    assert answer.status_code == 400
    assert "time 'noon' is not like" in answer.json()["error"]
    assert visitor.get(address.format(4)).status_code == 404


# --- the page ---


def test_the_page_has_the_same_as_a_table(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/ownership/").content.decode()
    for row in Tenure.objects.filter(group=group):
        assert f'data-partition="{row.partition}" data-fence="{row.fence}"' in page
    assert 'data-follows="yes"' in page
    narrowed = visitor.get(f"/groups/{group.name}/ownership/?first=1&last=2").content.decode()
    assert 'data-first="1" data-last="2"' in narrowed
    shown = [f'data-partition="{group.stream}:{n}"' in narrowed for n in range(4)]
    assert shown == [False, True, True, False]


def test_the_file_has_the_partitions_and_the_time_that_are_shown(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/ownership/?first=1&last=2").content.decode()
    (address,) = re.findall(r'id="csv"\s+href="([^"]+)"', page)
    lines = visitor.get(address.replace("&amp;", "&")).getvalue().decode().splitlines()
    assert sorted(line.split(",")[1] for line in lines) == ['"1"', '"2"', '"number"']
    begun_ms = Tenure.objects.filter(group=group).earliest("started_ms").started_ms
    early = f"/groups/{group.name}/history/ownership.csv?to={begun_ms}"
    assert len(visitor.get(early).getvalue().decode().splitlines()) == 1


def test_the_time_in_the_address_is_the_time_shown(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    row = Tenure.objects.filter(group=group).earliest("started_ms")
    early = f"?from={row.started_ms - 100}&to={row.started_ms}"
    page = visitor.get(f"/groups/{group.name}/ownership/{early}").content.decode()
    assert f'data-from="{row.started_ms - 100}" data-to="{row.started_ms}"' in page
    assert 'data-follows="no"' in page
    assert "Nobody has owned any of it in the time shown." in page


def test_what_cannot_be_read_is_said_once_on_the_page(visitor: Client, group: Group) -> None:
    page = visitor.get(f"/groups/{group.name}/ownership/?from=noon&span=1y").content.decode()
    assert page.count("time &#x27;noon&#x27; is not like") == 1
    assert page.count("span &#x27;1y&#x27; is not one of the choices") == 1
