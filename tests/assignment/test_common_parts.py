"""Scripts have what they use of the common parts before them, and nothing else of these."""

import re

import pytest

from assignment import lua

COMMON = ("_streams", "_common", "_letters")
RARELY = re.compile(r"^( *)(.* then -- rarely\n)((?:.*\n)*?)(?=\1e)", re.MULTILINE)
CONTINUES = re.compile(r"\s|end\b|\}|--|local |$")


def defined_in(text: str) -> set[str]:
    found = re.findall(r"^ *local (?:function )?(\w+(?:, \w+)*)", text, re.MULTILINE)
    return {name for names in found for name in names.split(", ")}


@pytest.mark.parametrize("name", COMMON)
def test_a_common_part_only_defines(name: str) -> None:
    """What it did besides would be done by no script."""
    lines = lua.own_text(name).splitlines()
    assert [line for line in lines if not CONTINUES.match(line)] == []


@pytest.mark.parametrize("name", lua.names())
def test_a_script_has_whatever_it_names(name: str) -> None:
    text = lua.script(name)
    always = RARELY.sub(r"\1\2", text)
    assert common_called(always) <= defined_in(always)
    for _, _, branch in RARELY.findall(text):
        assert common_called(branch) <= defined_in(always) | defined_in(branch)


def common_called(text: str) -> set[str]:
    common = set().union(*(defined_in(lua.own_text(part)) for part in COMMON))
    return set(re.findall(r"(?<![.:\w'])(\w+)\(", re.sub(r"--.*", "", text))) & common


def test_what_nobody_names_is_left_out() -> None:
    assert lua.with_common("return text(1)", "_streams", "_common").count("local function") == 1
    beat = lua.script("renew")
    assert "local function speaks_for(" in beat and "local function process_of(" not in beat
    assert "local function end_locks(" not in beat


def test_what_only_a_rare_branch_uses_is_made_there() -> None:
    branch = "  elseif is_first then -- rarely\n    if ask_look() then\n      return 2\n    end\n"
    text = f"if key('a') then\n  if ARGV[1] then\n    return 1\n{branch}  end\nend\n"
    written = lua.with_common(text, "_streams", "_common")
    always, of_branch = written.split("-- rarely\n")
    assert "local function key(" in always and "local function ask_look(" not in always
    assert of_branch.startswith("    local function ask_look(")
    assert "local function key(" not in of_branch
    assert of_branch.endswith("    if ask_look() then\n      return 2\n    end\n  end\nend\n")


@pytest.mark.parametrize("name", ["report", "renew"])
def test_what_runs_all_day_makes_no_more_than_it_needs(name: str) -> None:
    """What tells others of a change is made only where there is one."""
    always = RARELY.sub("", lua.script(name))
    assert not defined_in(always) & {
        "tell",
        "hint",
        "group_changed",
        "ask_look",
        "setting",
    }


def test_a_name_in_a_comment_is_not_used() -> None:
    assert lua.with_common("-- as text(1) says\nreturn 1", "_streams") == (
        "-- as text(1) says\nreturn 1"
    )
