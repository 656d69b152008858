"""When who coordinates may be switched, and the one sentence when not."""

from dataclasses import replace
from typing import Any

import pytest

from assignment import VERSION
from assignment.coordinator.switching import coordinates, why_not
from assignment.scripts.group_read import GroupRead, MemberRow
from assignment.types import Coordination
from tests.builders import group

CLIENT, SERVER = Coordination.CLIENT, Coordination.SERVER


def member(version: str, name: str = "a") -> MemberRow:
    return MemberRow(member_id=name, joined_at_ms=1, version=version)


def view(mode: Coordination = SERVER, **versions: str) -> GroupRead:
    rows = {name: member(version, name) for name, version in versions.items()}
    return replace(group(coordination=mode, mode_epoch=3), members=rows)


def why(seen: GroupRead, mode: Coordination, **more: Any) -> str:
    return why_not(seen, mode, **{"expected": None, "is_ticked": True, **more})


def test_agents_of_this_version_can_coordinate() -> None:
    assert why(view(a=VERSION, b=VERSION), CLIENT) == ""
    assert why(view(), CLIENT) == ""


@pytest.mark.parametrize("version", ["0.1.0", "0.1", "", "new", "0"])
def test_what_a_version_can_is_said_by_its_first_two_numbers(version: str) -> None:
    assert coordinates(member(version)) is False


@pytest.mark.parametrize("version", ["0.2", "0.10.1", "1", "0.2.0.dev1+here"])
def test_later_ones_coordinate(version: str) -> None:
    assert coordinates(member(version)) is True


def test_a_member_that_cannot_is_named_with_its_version() -> None:
    said = why(view(a=VERSION, c="", b="0.1.0"), CLIENT)
    tail = "not b (version 0.1.0), c (version unknown)"
    assert said == f"agents coordinate from version 0.2 on, so {tail}"


def test_without_a_tick_nobody_would_compute() -> None:
    assert why(view(CLIENT, a="0.1.0"), SERVER) == ""
    said = why(view(CLIENT), SERVER, is_ticked=False)
    assert said == "no dashboard ticks over this group, so none would compute"


def test_an_old_epoch_is_refused_also_when_it_is_so_already() -> None:
    for mode in Coordination:
        assert why(view(), mode, expected=2) == "the mode epoch is 3 (server), not 2"
        assert why(view(), mode, expected=3) == ""


def test_what_is_so_already_is_never_refused() -> None:
    assert why(view(SERVER), SERVER, is_ticked=False) == ""
    assert why(view(CLIENT, a="0.1.0"), CLIENT) == ""


def test_a_group_that_redis_does_not_have_cannot_be_switched() -> None:
    seen = view()
    gone = replace(seen, meta=replace(seen.meta, settings=None))
    assert why(gone, CLIENT) == "the group is not in Redis"
