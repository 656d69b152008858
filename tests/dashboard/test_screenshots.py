"""Every page is photographed, or the command says which one it cannot show."""

import shutil

import pytest
from django.urls import resolve

from dashboard.evaluation.screenshots import addresses as found
from dashboard.evaluation.screenshots.addresses import Known, UnknownPage, addresses, is_page
from dashboard.evaluation.screenshots.chromium import NAMES, NoChromium, executable
from dashboard.evaluation.screenshots.pictures import LOOKS, index

KNOWN = Known(
    values={
        "name": ["orders"],
        "number": [0],
        "member_id": ["a"],
        "incarnation": [1],
        "target_epoch": [2],
        "page": ["concepts", "api"],
    },
    rows=dict.fromkeys(("user", "scale_down", "evaluation_report", "plan"), 7),
    moments={"epoch": 2, "before": 1},
)


def test_each_route_has_an_address_of_its_own_or_a_reason_to_have_none() -> None:
    pages = addresses(KNOWN)
    assert len({one.file for one in pages}) == len({one.path for one in pages}) == len(pages)
    assert {one.name for one in pages} >= {"overview", "group", "plan", "user", "help_page"}
    for one in pages:
        assert resolve(one.path.partition("?")[0]).url_name == one.name
    assert {one.name for one in pages}.isdisjoint(found.NOT_PAGES)


def test_a_new_page_whose_address_nobody_knows_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(found, "pages", lambda: [found.Page("planet", {"pk": "int"})])
    with pytest.raises(UnknownPage, match="what pk of the route 'planet' is"):
        addresses(KNOWN)


def test_what_answers_neither_a_page_nor_a_file_is_told() -> None:
    assert is_page(200, "text/html; charset=utf-8")
    assert is_page(200, "text/csv") is False
    assert is_page(405, "") is False
    assert [is_page(status, "text/html") for status in (302, 403, 404, 500)] == [None] * 4


def test_without_a_chromium_one_sentence_names_what_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == NAMES[-1] else None)
    assert executable() == f"/bin/{NAMES[-1]}"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoChromium, match="chromium, chromium-browser, google-chrome"):
        executable()


def test_the_index_names_each_address_with_its_pictures() -> None:
    assert {look.suffix for look in LOOKS} == {
        *("light-1440", "light-390", "dark-1440", "dark-390"),
    }
    page = index({"/groups/?q=<b>": ["groups-light-1440.png"]})
    assert "/groups/?q=&lt;b&gt;" in page and 'src="groups-light-1440.png"' in page
