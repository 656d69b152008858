"""Lists of partitions: where a row's number leads, and how old its progress is said to be."""

import re

import pytest
from django.test import Client

from dashboard.live.cells import Cells
from dashboard.models import Group
from dashboard.pages import texts
from tests.dashboard.pages.past_pages import Events

LINK = re.compile(r'<a href="(/groups/[^"?]+/partitions/(\d+)/)(\?[^"]*)?">(\d+)</a>')


@pytest.mark.parametrize("page", ["", "partitions/", "history/?show=ownership"])
def test_each_number_leads_to_its_partition(
    visitor: Client, group: Group, handed: Events, page: str
) -> None:
    found = LINK.findall(visitor.get(f"/groups/{group.name}/{page}").content.decode())
    assert {int(number) for _, number, _, _ in found} == set(range(group.partitions))
    for address, number, _, shown in found:
        assert number == shown
        assert address == f"/groups/{group.name}/partitions/{number}/"
    assert visitor.get(found[0][0]).status_code == 200


@pytest.mark.parametrize("page", ["", "partitions/"])
def test_in_the_past_it_leads_to_the_partition_of_that_moment(
    visitor: Client, group: Group, handed: Events, page: str
) -> None:
    at = texts.exact(handed[-1].at_ms)
    found = LINK.findall(visitor.get(f"/groups/{group.name}/{page}?at={at}").content.decode())
    assert {int(number) for _, number, _, _ in found} == set(range(group.partitions))
    assert {then for _, _, then, _ in found} == {f"?at={at}"}
    address, _, then, _ = found[0]
    assert visitor.get(address + then).status_code == 200


@pytest.mark.parametrize("page", ["partitions/", "partitions/1/"])
def test_how_old_progress_is_is_said_from_a_second_on(
    visitor: Client, group: Group, handed: Events, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages = {0: 0, 1: 5_000}
    monkeypatch.setattr(Cells, "age_ms", lambda self, n: ages.get(n, 999))
    monkeypatch.setattr("dashboard.live.watching.FRESH_MS", 60_000)
    said = re.findall(r'<small class="muted">([^<]* old)</small>', _page(visitor, group, page))
    assert said == ["5 s old"]


def _page(visitor: Client, group: Group, page: str) -> str:
    return visitor.get(f"/groups/{group.name}/{page}").content.decode()
