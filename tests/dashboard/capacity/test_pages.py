"""capacity: what the page says, and its pictures, are of what was measured."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.management import call_command

from dashboard.evaluation.capacity import curves, measuring, pages, stored
from dashboard.evaluation.capacity.curves import Chart, Curve
from dashboard.evaluation.capacity.formulas import FORMULAS
from tests.dashboard.capacity.runs import taking


def test_the_page_and_its_pictures_are_of_what_was_measured() -> None:
    """Else: python3 manage.py capacity --write"""
    content, page = stored.read(), pages.PAGE.read_text()
    assert {run["groups"] for run in content["runs"]} == {
        groups for _, groups, _ in measuring.SIZES
    }
    assert pages.put(page, pages.tables(content)) == page
    drawn = pages.pictures(content) | pages.growth_pictures(stored.read_growth())
    for name, text in drawn.items():
        assert (pages.IMAGES / name).read_text() == text
        assert f"(img/{name})" in page


def test_a_pace_of_another_machine_is_told_beside_predictions_that_are_right(content: Any) -> None:
    sizes = (*measuring.OTHER_SIZES, *measuring.PACE_SIZES)
    runs = [taking(content["constants"], size) for size in sizes]
    checked = {**stored.checked(content, runs[:2], runs[2:]), "pace": 2.5}
    judged = len(stored.judged(checked["rows"]))
    *_, counted, missed = pages.tables({**content, "checked": checked})["checked"]
    assert f"pace 2.5: {judged} of {judged} that are judged" in counted
    assert "Missed: pace 2.5" in missed


def test_measuring_writes_constants_that_come_out_of_its_runs_and_the_page(
    content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, page = content["constants"], tmp_path / "capacity.md"
    monkeypatch.setattr(measuring, "run", lambda size, *_: taking(of, size))
    monkeypatch.setattr(stored, "benched", lambda: content["benches"])
    monkeypatch.setattr(stored, "FILE", tmp_path / "constants.json")
    page.write_text(pages.PAGE.read_text())
    monkeypatch.setattr(pages, "PAGE", page)
    monkeypatch.setattr(pages, "IMAGES", tmp_path)
    with pytest.raises(SystemExit) as ended:
        call_command("capacity", "--measure")
    assert ended.value.code == 0
    for row in stored.judged(stored.read()["fits"]):
        assert row["ratio"] is None or row["ratio"] == pytest.approx(1, abs=0.02), row
    assert all(f"| `{figure}` |" in page.read_text() for figure in FORMULAS)
    assert (tmp_path / "capacity_cpu.svg").read_text().startswith("<svg")


def test_what_grows_in_proportion_is_straight_and_names_are_escaped() -> None:
    places, values = [1, 10, 100], [2.0, 20.0, 200.0]
    drawn = curves.drawn(Chart("a < b", "x", "y", places, [Curve("one & two", values)]))
    line = ElementTree.fromstring(drawn).find(".//{*}polyline")
    assert line is not None
    (x1, y1), (x2, y2), (x3, y3) = (map(float, p.split(",")) for p in line.attrib["points"].split())
    assert (x2 - x1, y2 - y1) == pytest.approx((x3 - x2, y3 - y2), abs=0.2)
