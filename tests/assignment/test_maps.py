"""The roles of a round, as its record keeps them."""

from assignment import maps
from assignment.types import TargetRow
from tests.builders import partitions


def row(active: tuple[int, ...] = (), **roles: frozenset) -> TargetRow:
    return TargetRow(target_epoch=8, active=partitions(*active), **roles)


def test_a_round_says_what_each_member_has_gets_loses_and_learns() -> None:
    packed = maps.pack_replicas(
        {
            "S1": row((1,), standby=partitions(0)),
            "S2": row((2, 3), learning=partitions(1)),
            "S4": row((0,)),
            "idle": row(),
        }
    )
    assert maps.roles(["S1", "S1", "S2", "S2"], ["S4", "S1", "S2", "S2"], packed) == {
        "S1": {"assigned": [1], "revoked": [0], "standby": [0], "learning": []},
        "S2": {"assigned": [2, 3], "revoked": [], "standby": [], "learning": [1]},
        "S4": {"assigned": [0], "revoked": [], "standby": [], "learning": []},
        "idle": {"assigned": [], "revoked": [], "standby": [], "learning": []},
    }


def test_without_replicas_the_owners_alone_say_it() -> None:
    assert maps.roles(["gone", None], ["a", "a"], None) == {
        "a": {"assigned": [0, 1], "revoked": [], "standby": [], "learning": []},
        "gone": {"assigned": [], "revoked": [0], "standby": [], "learning": []},
    }


def test_partitions_that_are_no_more_are_revoked() -> None:
    found = maps.roles(["a", "a"], ["a"], None)
    assert found["a"] == {"assigned": [0], "revoked": [1], "standby": [], "learning": []}
