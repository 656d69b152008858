"""How long a group's committed events are kept, and which of their fields nobody is shown."""

from assignment.errors import InvalidInput

MASKED_MAX = 2_000  # characters of all names together
KEPT_LIMITS = {
    "events_kept_ms": 30 * 86_400_000,
    "events_kept_bytes": 2**40,  # a terabyte: Redis holds them in memory
}


def check_number(name: str, value: object, high: int) -> None:
    """Raises InvalidInput that names the setting."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
        raise InvalidInput(f"{name} {value!r} is not a whole number within 0 and {high}")


def check_masked(names: object) -> None:
    """Raises InvalidInput."""
    if not isinstance(names, str) or len(names) > MASKED_MAX:
        raise InvalidInput(f"masked_fields is no text of at most {MASKED_MAX} characters")


def masked_names(text: str) -> frozenset[str]:
    """Of the setting masked_fields, in lower case: a mask that fits but for the case must hold."""
    return frozenset(name.strip().lower() for name in text.split(",")) - {""}
