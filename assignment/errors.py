"""Errors of the pure core, by what the caller can do about them."""


class EvenkeelError(Exception):
    """Root of all this package raises on purpose; the text is one sentence that names the value."""


class InvalidInput(EvenkeelError, ValueError):
    """What was given cannot be right: correct it and ask again. Nothing was changed."""


class Fenced(EvenkeelError):
    """Others may own by now what was ours: drop everything and join anew."""


class InvariantBroken(EvenkeelError, AssertionError):
    """A state that must not exist: a bug. Stop and report."""


class GroupMissing(EvenkeelError):
    """The group's own settings are not in Redis: configure it, then ask again."""
