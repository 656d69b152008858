"""What a caller of the store can do about an error; a client's own exceptions never leave it."""

from assignment.errors import EvenkeelError, Fenced, InvalidInput, InvariantBroken


class StoreUnavailable(EvenkeelError):
    """Redis does not answer now; a write may be done or not: stay safe, ask again, bounded."""


__all__ = ["Fenced", "InvalidInput", "InvariantBroken", "StoreUnavailable"]
