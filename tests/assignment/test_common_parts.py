"""Scripts have what they use of the common parts before them, and nothing else of these."""

import re

import pytest

from assignment import lua

COMMON = ("_streams", "_common", "_letters")
CONTINUES = re.compile(r"\s|end\b|\}|--|local |$")


def defined_in(text: str) -> set[str]:
    found = re.findall(r"^local (?:function )?(\w+(?:, \w+)*)", text, re.MULTILINE)
    return {name for names in found for name in names.split(", ")}


@pytest.mark.parametrize("name", COMMON)
def test_a_common_part_only_defines(name: str) -> None:
    """What it did besides would be done by no script."""
    lines = lua.own_text(name).splitlines()
    assert [line for line in lines if not CONTINUES.match(line)] == []


@pytest.mark.parametrize("name", lua.names())
def test_a_script_has_whatever_it_names(name: str) -> None:
    text = re.sub(r"--.*", "", lua.script(name))
    common = set().union(*(defined_in(lua.own_text(part)) for part in COMMON))
    called = set(re.findall(r"(?<![.:\w'])(\w+)\(", text)) & common
    assert called <= defined_in(lua.script(name))


def test_what_nobody_names_is_left_out() -> None:
    assert lua.with_common("return text(1)", "_streams", "_common").count("local function") == 1
    beat = lua.script("renew")
    assert "local function speaks_for(" in beat and "local function row_of(" in beat
    assert "local function end_locks(" not in beat


def test_a_name_in_a_comment_is_not_used() -> None:
    assert lua.with_common("-- as text(1) says\nreturn 1", "_streams") == (
        "-- as text(1) says\nreturn 1"
    )
