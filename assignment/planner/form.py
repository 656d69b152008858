"""A view as JSON, for the command `plan` and for tests: partitions are strings.

{"partitions": ["T1", ...], "stateful": true, "settings": {"standby_replicas", "learners_max",
"acceptable_lag_records", "learn_partial_rebalance"}, "members": {"S1": {"able", "joined_at_ms",
"leaving", "forced", "zone", "capacity", "owned": ["T1", ...], "standby": {"T3": lag},
"learning": {"T1": {"lag": number, "ready": bool}}, "unserved": ["T4", ...]}}}. Of a member only
`owned` must be there; of the rest `stateful` (true) and `settings` may be left out. A lag of null
is not known.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from assignment.errors import InvalidInput
from assignment.planner import values

T = TypeVar("T")
Check = Callable[[Any, str], Any]
_SHOWN_MAX = 60  # characters of a wrong value that an error repeats


def read_view(said: Any) -> values.GroupView[str]:
    """InvalidInput names the first wrong value and its place. Other fields are not read."""
    view = _object(said, "the view")
    for name in ("partitions", "members"):
        if name not in view:
            raise InvalidInput(f"the view has no {name!r}")
    members = _object(view["members"], "members")
    values.refuse_twice("partition", _names(view["partitions"], "partitions"))
    return values.GroupView(
        partitions=tuple(view["partitions"]),
        stateful=_flag(view.get("stateful", True), "stateful"),
        settings=values.LearnerSettings(**_fields(view.get("settings", {}), "settings", _SETTINGS)),
        members=tuple(_member(member_id, row) for member_id, row in members.items()),
    )


def unread(said: Mapping[str, Any]) -> list[str]:
    """Where a view that was read has fields without meaning here: often typing mistakes."""
    found = sorted(said.keys() - _VIEW)
    found += [f"settings.{name}" for name in sorted(said.get("settings", {}).keys() - _SETTINGS)]
    for member_id, row in sorted(said["members"].items()):
        found += [
            f"members.{member_id}.{name}" for name in sorted(row.keys() - _MEMBER - {"owned"})
        ]
    return found


def shown(assignment: values.Assignment[str]) -> dict[str, Any]:
    """{"members": {id: {"assigned", "revoked", "standby", "learning"}}, "moves", "balanced"}."""
    return {
        "members": {m: part_shown(part) for m, part in assignment.members.items()},
        "moves": assignment.moves,
        "balanced": assignment.balanced,
    }


def part_shown(part: values.MemberAssignment[str]) -> dict[str, list[str]]:
    return {
        "assigned": list(part.assigned),
        "revoked": list(part.revoked),
        "standby": list(part.standby),
        "learning": list(part.learning),
    }


# --- parts ----------------------------------------------------------------------------------------


def _member(member_id: str, said: Any) -> values.MemberView[str]:
    place = f"members.{_name(member_id, 'a member id')}"
    row = _object(said, place)
    if "owned" not in row:
        raise InvalidInput(f"{place} has no 'owned'")
    owned = frozenset(_names(row["owned"], f"{place}.owned"))
    return values.MemberView(member_id=member_id, owned=owned, **_fields(row, place, _MEMBER))


def _fields(said: Any, place: str, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Those that are there, checked."""
    row = _object(said, place)
    return {
        name: check(row[name], f"{place}.{name}") for name, check in checks.items() if name in row
    }


def _learner(said: Any, place: str) -> values.Learner:
    row = _object(said, place)
    return values.Learner(
        _lag(row.get("lag"), f"{place}.lag"), _flag(row.get("ready", False), f"{place}.ready")
    )


def _by_partition(check: Callable[[Any, str], T]) -> Callable[[Any, str], dict[str, T]]:
    def checked(said: Any, place: str) -> dict[str, T]:
        return {
            name: check(value, f"{place}.{name}") for name, value in _object(said, place).items()
        }

    return checked


def _object(said: Any, place: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise _wrong(said, place, "an object")
    return said


def _names(said: Any, place: str) -> Iterable[str]:
    if not isinstance(said, list):
        raise _wrong(said, place, "a list of names")
    for name in said:
        _name(name, f"a name in {place}")
    return said


def _name(said: Any, place: str) -> str:
    """Half a surrogate pair is a string to JSON, and can be written nowhere."""
    if not isinstance(said, str) or not said or (not said.isascii() and _is_broken(said)):
        raise _wrong(said, place, "a string with something in it")
    return said


def _is_broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _flag(said: Any, place: str) -> bool:
    if not isinstance(said, bool):
        raise _wrong(said, place, "true or false")
    return said


def _whole(said: Any, place: str) -> int:
    if isinstance(said, bool) or not isinstance(said, int):
        raise _wrong(said, place, "a whole number")
    return said


def _count(said: Any, place: str) -> int:
    if _whole(said, place) < 0:
        raise _wrong(said, place, "a whole number from 0")
    return int(said)


def _lag(said: Any, place: str) -> int | None:
    return None if said is None else _count(said, place)


def _capacity(said: Any, place: str) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said < 1e308:
        raise _wrong(said, place, "a number above 0")
    return said


def _zone(said: Any, place: str) -> str:
    if said is not None and not isinstance(said, str):
        raise _wrong(said, place, "a string")
    return said or ""


def _wrong(said: Any, place: str, wanted: str) -> InvalidInput:
    text = json.dumps(said)
    if len(text) > _SHOWN_MAX:
        text = f"{text[:_SHOWN_MAX]}..."
    return InvalidInput(f"{place} is {text}, not {wanted}")


_VIEW = {"partitions", "stateful", "settings", "members"}
_SETTINGS: Mapping[str, Check] = {
    "standby_replicas": _count,
    "learners_max": _count,
    "acceptable_lag_records": _count,
    "learn_partial_rebalance": _flag,
}
_MEMBER: Mapping[str, Check] = {
    "able": _flag,
    "joined_at_ms": _whole,
    "leaving": _flag,
    "forced": _flag,
    "zone": _zone,
    "capacity": _capacity,
    "standby": _by_partition(_lag),
    "learning": _by_partition(_learner),
    "unserved": lambda said, place: frozenset(_names(said, place)),
}
