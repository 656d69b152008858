"""What can be wrong with a replica of state, by what the caller can do about it."""

from assignment.errors import EvenkeelError


class StateError(EvenkeelError):
    """The disk refused (full, read-only ...): nothing was changed. Stay safe and try again."""


class WriterReplaced(StateError):
    """Another one writes this replica since: nothing was changed. Leave it to that one."""


class SnapshotBroken(StateError):
    """A snapshot is missing, cut short or its checksum is wrong: use the one before it."""


class StateLost(StateError):
    """Neither the changelog nor a snapshot leads to the committed offset: a person must look."""
