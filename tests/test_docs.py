"""The README names every setting, metric and command that the code has; words are the product's."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from assignment import metrics
from assignment.settings import SETTINGS
from dashboard.pages import settings_page
from dashboard.records.queries.rebalances import PHASES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
LINES_MAX = 150


def dashboard_settings() -> set[str]:
    text = (ROOT / "dashboard" / "settings.py").read_text()
    return set(re.findall(r'\b(?:text|flag|names|number)\(\s*"([A-Z_]+)"', text))


def agent_options() -> set[str]:
    text = "".join((ROOT / "agent" / name).read_text() for name in ("config.py", "addresses.py"))
    return set(re.findall(r'(?:option|add_argument)\(\s*"(--[a-z-]+)"', text))


def consumer_variables() -> set[str]:
    """Named in constants `..._VARIABLE` of the agent's side and the contract."""
    found = {"JAVA_HOME"}
    for path in [*(ROOT / "agent").rglob("*.py"), ROOT / "assignment" / "wire.py"]:
        found |= set(re.findall(r'\w+_VARIABLE = "([A-Z_]+)"', path.read_text()))
    return found


def commands() -> set[str]:
    folder = ROOT / "dashboard" / "management" / "commands"
    return {path.stem for path in folder.glob("[a-z]*.py")}


def up_options() -> set[str]:
    text = (ROOT / "dashboard" / "management" / "commands" / "up.py").read_text()
    return set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', text))


def metric_names() -> set[str]:
    names = {*PHASES, "balance_degree", "max_minus_min", "max_over_mean", "score"}
    names |= {name for name in vars(metrics.Movement) if not name.startswith("_")}
    names -= {f.name for f in fields(metrics.Movement)}
    return names | {"ownership_gap", "lag_records"}


@pytest.mark.parametrize(
    "names",
    [dashboard_settings, agent_options, consumer_variables, up_options, metric_names],
)
def test_readme_names_all(names: Callable[[], set[str]]) -> None:
    found = names()
    assert len(found) > 3, "the test itself finds nothing any more"
    assert {n for n in found if n not in README and n.replace("_", " ") not in README} == set()


def test_readme_names_every_command() -> None:
    assert {c for c in commands() if not re.search(rf"[ `]{c}\b", README)} == set()


def test_the_page_of_a_groups_settings_is_what_is_declared() -> None:
    """Else: python -m dashboard.pages.settings_page > docs/settings.md"""
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page.splitlines() == list(settings_page.lines())
    assert {name for name in SETTINGS if f"| `{name}` |" not in page} == set()
    assert "(docs/settings.md)" in README


@pytest.mark.parametrize("place", ["templates", "dashboard/pages", "dashboard/demo", "docs"])
def test_what_people_read_is_in_the_words_of_the_product(place: str) -> None:
    """Remove, drain, force the rest out, needs attention, keep (%): not as it was said at first."""
    home_made = re.compile(
        r"take(n)? (\w+ )*away|tell \w+ to leave|needs a look|who is left|per cent|go(es)? at once",
        re.IGNORECASE,
    )
    kinds = {".html", ".py", ".md"}
    texts = {path: path.read_text() for path in (ROOT / place).rglob("*") if path.suffix in kinds}
    assert texts
    assert [path.name for path, text in texts.items() if home_made.search(text)] == []


def test_readme_stays_short() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_readme_shows_pictures_that_are_there() -> None:
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).is_file(), path
