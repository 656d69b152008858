"""How it grows: members that are played own everything; exponents are of what was counted."""

from typing import Any

import pytest

from tests.fakes.script_bugs import plant
from tests.simulation import growth
from tests.simulation.growth import IN_GROUPS, IN_ONE_GROUP, Size


def test_all_is_owned_and_nothing_changes_any_more() -> None:
    found = growth.played(Size(6, 2))
    assert found["steady_virtual_s"] is not None and not found["errors"]
    assert found["joining"]["join"] == 6
    steady = found["steady"]
    assert steady["targets"] == steady["hints delivered"] == 0
    assert steady["looks"] <= 2 * 2 < steady["ticks"]  # until the round is complete; then it rests
    assert steady["heartbeat"] == 12 and steady["ticks"] >= 2 * growth.WINDOW_S


def runs(*commands: int) -> list[dict[str, Any]]:
    return [
        {"members": 10**n, "groups": 1, "errors": 0, "steady_virtual_s": 1.0,
         "steady": {"commands": count, "targets": 0}}
        for n, count in enumerate(commands, 1)
    ]  # fmt: skip


def test_an_exponent_is_the_slope_on_logarithmic_axes() -> None:
    assert growth.exponents(runs(7, 700, 70_000), "steady") == {"commands": 2.0}


def test_what_grows_faster_than_said_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    some = {size.members: one for size, one in zip(
        (Size(10, 1), Size(100, 1), Size(1_000, 1)), runs(7, 700, 70_000), strict=True
    )}  # fmt: skip
    for one in some.values():
        one["joining"] = {"hints delivered": one["steady"]["commands"]}
    sizes = {IN_ONE_GROUP: [Size(n, 1) for n in some]}
    monkeypatch.setattr(growth, "sizes", lambda members, groups: sizes)
    monkeypatch.setattr(growth, "played", lambda size: some[size.members])
    found = growth.grown(1_000, 1, lambda text: None)[IN_ONE_GROUP]
    assert found["faster"] == [
        "hints delivered while joining: 2.0, said 1.0",
        "commands while steady: 2.0, said 1.0",
    ]


def test_a_change_of_each_that_all_hear_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "sizes", lambda members, groups: {
        IN_ONE_GROUP: [Size(n, 1) for n in (6, 18, 54)]
    })  # fmt: skip

    def faster() -> list[str]:
        found: list[str] = growth.grown(54, 1, lambda text: None)[IN_ONE_GROUP]["faster"]
        return found

    assert not faster()
    plant(
        monkeypatch, "report", ("if computes then tell(computes, reason) end", "tell_all(reason)")
    )
    assert any(text.startswith("hints delivered while joining") for text in faster())


def test_sizes_grow_up_to_what_is_asked_for() -> None:
    found = growth.sizes(100_000, 1_000)
    assert found[IN_GROUPS][-1] == Size(100_000, 1_000)
    assert {size.members // size.groups for size in found[IN_GROUPS]} == {100}
    assert found[IN_ONE_GROUP][-1] == Size(1_000, 1)
