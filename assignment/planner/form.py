"""A view as JSON, for the command `plan` and for tests: partitions are strings.

{"partitions": ["T1", ...], "stateful": true, "settings": {"standby_replicas", "learners_max",
"acceptable_lag_records", "learn_partial_rebalance"}, "members": {"S1": {"able", "joined_at_ms",
"leaving", "forced", "zone", "capacity", "owned": ["T1", ...], "standby": {"T3": lag},
"caught_up": ["T3", ...], "learning": {"T1": {"lag": number, "ready": bool}},
"unserved": ["T4", ...]}}}. Of a member only `owned` must be there; of the rest `stateful` (true)
and `settings` may be left out. A lag of null is not known.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from assignment.errors import InvalidInput
from assignment.planner import values
from assignment.strategies import parameters

T = TypeVar("T")
Check = Callable[[str, Any], T]  # place, value
_CAPACITY_MAX = 1e308  # a longer whole number is no float


def read_view(said: Any) -> values.GroupView[str]:
    """InvalidInput names the first wrong value and its place. Other fields are not read."""
    view = _with("the view", said, "partitions", "members")
    members = parameters.mapping("members", view["members"])
    return values.GroupView(
        partitions=parameters.texts("partitions", view["partitions"]),
        stateful=parameters.flag("stateful", view.get("stateful", True)),
        settings=values.LearnerSettings(**_fields("settings", view.get("settings", {}), _SETTINGS)),
        members=tuple(_member(member_id, row) for member_id, row in members.items()),
    )


def unread(said: Mapping[str, Any]) -> list[str]:
    """Where a view that was read has fields without meaning here: often typing mistakes."""
    found = sorted(said.keys() - _VIEW)
    found += [f"settings.{name}" for name in sorted(said.get("settings", {}).keys() - _SETTINGS)]
    for member_id, row in sorted(said["members"].items()):
        found += [f"members.{member_id}.{name}" for name in sorted(row.keys() - _MEMBER)]
    return found


def shown(assignment: values.Assignment[str]) -> dict[str, Any]:
    """{"members": {id: {"assigned", "revoked", "standby", "learning"}}, "moves", "balanced"}."""
    return {
        "members": {m: part_shown(part) for m, part in assignment.members.items()},
        "moves": assignment.moves,
        "balanced": assignment.balanced,
    }


def part_shown(part: values.MemberAssignment[str]) -> dict[str, list[str]]:
    return {kind: list(names) for kind, names in vars(part).items()}


# --- parts ----------------------------------------------------------------------------------------


def _with(place: str, said: Any, *required: str) -> Mapping[str, Any]:
    row = parameters.mapping(place, said)
    for name in required:
        if name not in row:
            raise InvalidInput(f"{place} has no {name!r}")
    return row


def _member(member_id: str, said: Any) -> values.MemberView[str]:
    place = f"members.{parameters.text('a member id', member_id)}"
    row = _with(place, said, "owned")
    return values.MemberView(member_id=member_id, **_fields(place, row, _MEMBER))


def _fields(place: str, said: Any, checks: Mapping[str, Check[Any]]) -> dict[str, Any]:
    """Those that are there, checked."""
    row = parameters.mapping(place, said)
    return {
        name: check(f"{place}.{name}", row[name]) for name, check in checks.items() if name in row
    }


def _learner(place: str, said: Any) -> values.Learner:
    row = parameters.mapping(place, said)
    return values.Learner(
        _lag(f"{place}.lag", row.get("lag")),
        parameters.flag(f"{place}.ready", row.get("ready", False)),
    )


def _lag(place: str, said: Any) -> int | None:
    return None if said is None else parameters.whole(place, said)


def _by_partition(check: Check[T]) -> Check[dict[str, T]]:
    return lambda place, said: {
        name: check(f"{place}.{name}", value)
        for name, value in parameters.mapping(place, said).items()
    }


_VIEW = {"partitions", "stateful", "settings", "members"}
_SETTINGS: Mapping[str, Check[Any]] = {
    "standby_replicas": parameters.whole,
    "learners_max": parameters.whole,
    "acceptable_lag_records": parameters.whole,
    "learn_partial_rebalance": parameters.flag,
}
_MEMBER: Mapping[str, Check[Any]] = {
    "owned": parameters.texts,
    "able": parameters.flag,
    "joined_at_ms": parameters.whole,
    "leaving": parameters.flag,
    "forced": parameters.flag,
    "zone": lambda place, said: parameters.text_or_none(place, said) or "",
    "capacity": partial(parameters.number, most=_CAPACITY_MAX),
    "standby": _by_partition(_lag),
    "learning": _by_partition(_learner),
    "caught_up": parameters.texts,
    "unserved": parameters.texts,
}
