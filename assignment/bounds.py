"""How large anything may be that an agent says of itself: its numbers, texts and lists.

Annotations of the message forms in assignment.wire, so that whoever reads one has it checked.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, TypeGuard, get_args, get_origin, get_type_hints

import msgspec
import msgspec.structs
from msgspec import Meta

from assignment.errors import InvalidInput

NAME_MAX = 120  # characters of a member or a partition
LINE_MAX = 255  # a host, an id of Spark
WHY_MAX = 1_000  # what is told to people
RATE_MAX = 1e12  # events a second; what is above is no rate
CAPACITY_MAX = 1_000  # as of --capacity
SHOWN_MAX = 120  # characters of a value that an error names
WHOLE_MAX = 2**53
INCARNATION_MAX = 2**21 - 1  # of a fence, which is incarnation * 2^32 + counter
MOMENT_MAX = 253_402_300_799_999  # ms: the last one of the year 9999, which can still be written

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Whole = Annotated[
    int, Meta(ge=0, lt=WHOLE_MAX)
]  # counts, times, epochs: exact in Lua and JavaScript
OfPlan = Annotated[int, Meta(ge=-1, lt=WHOLE_MAX)]  # -1: of none
Moment = Annotated[int, Meta(ge=0, le=MOMENT_MAX)]  # ms since 1970
Incarnation = Annotated[int, Meta(ge=0, le=INCARNATION_MAX)]
Pid = Annotated[int, Meta(ge=0, lt=2**31)]  # Lua writes numbers of up to 14 digits exactly
Rate = Annotated[float, Meta(ge=0, le=RATE_MAX)]
Capacity = Annotated[float, Meta(gt=0, le=CAPACITY_MAX)]
Name = Annotated[str, Meta(max_length=NAME_MAX)]
Line = Annotated[str, Meta(max_length=LINE_MAX)]
Words = Annotated[str, Meta(max_length=WHY_MAX)]

Scalar = Words | Int64 | float | bool | None
Values = dict[Name, Scalar]  # of one trouble: one level, no more


def whole_of(text: str | bytes | int) -> int:
    """A Whole of its text; InvalidInput names another. One by one, since there are many."""
    number = int(text)
    if not 0 <= number < WHOLE_MAX:
        raise InvalidInput(f"{number} is not within 0 and {WHOLE_MAX}")
    return number


def moment_of(text: str | bytes | int) -> int:
    """A Moment of its text; InvalidInput names another."""
    at_ms = int(text)
    if not 0 <= at_ms <= MOMENT_MAX:
        raise InvalidInput(f"{at_ms} ms is no time of the years 1970 to 9999")
    return at_ms


def shortened(said: str, most: int = WHY_MAX) -> str:
    """Whoever tells more than may be told is cut off, not refused."""
    return said if len(said) <= most else said[: most - 1] + "…"


def shown(text: str) -> str:
    """As an error names it: quoted, and its beginning when it is long."""
    return repr(shortened(text, SHOWN_MAX))


def printable(text: str) -> str:
    """No database, terminal or page refuses it, nor is it read as anything but text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


NOT_STORED = re.compile("[\x00\ud800-\udfff]")  # NUL; half a character, which JSON can write


def not_storable(document: Any) -> str | None:
    """The first text in values as JSON has them that not every database holds."""
    waiting = [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, str) and NOT_STORED.search(one):
            return one
    return None


def closed(kind: type) -> type[msgspec.Struct]:
    """A struct with the fields of a dataclass or a struct, and of those in its fields, that refuses
    any other name. Written, it leaves out what `kind` leaves out.
    """
    hints = get_type_hints(kind, include_extras=True)
    made: list[Any] = []
    for one in _fields(kind):
        default: Sequence[Any] = ()
        if not _is_missing(one.default):
            default = (one.default,)
        elif not _is_missing(one.default_factory):
            default = (msgspec.field(default_factory=one.default_factory),)
        made.append((one.name, _closed(hints[one.name]), *default))
    check = getattr(kind, "__post_init__", None)
    is_sparse = _is_struct(kind) and kind.__struct_config__.omit_defaults
    return msgspec.defstruct(
        kind.__name__,
        made,
        namespace={"__post_init__": check} if check else None,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        omit_defaults=is_sparse,
    )


def _fields(kind: Any) -> Sequence[Any]:
    return msgspec.structs.fields(kind) if _is_struct(kind) else fields(kind)


def _is_missing(default: Any) -> bool:
    return default is MISSING or default is msgspec.NODEFAULT


def _is_struct(kind: type) -> TypeGuard[type[msgspec.Struct]]:
    return issubclass(kind, msgspec.Struct)


def _closed(hint: Any) -> Any:
    if isinstance(hint, type) and (is_dataclass(hint) or _is_struct(hint)):
        return closed(hint)
    parts = get_args(hint)
    inside = tuple(map(_closed, parts))
    # Of unions and annotations nothing is changed: no form has a dataclass in one.
    return hint if inside == parts else get_origin(hint)[inside]
