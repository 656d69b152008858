"""A group that needs no dashboard: made by the first of its agents, and as its flags say."""

from collections.abc import Mapping
from typing import Any

from agent.membership import Note
from agent.store.group import GroupStore
from assignment.errors import InvalidInput
from assignment.scripts import recovery
from assignment.scripts.dashboard_side import configure
from assignment.scripts.group_read import Meta
from assignment.types import Coordination, GroupSettings, Reason


class Contradiction(InvalidInput):
    """The flags are good, and what is in Redis is otherwise."""


class Founder:
    """`flags`: by the names of GroupSettings, those that were given."""

    def __init__(
        self, store: GroupStore, flags: Mapping[str, Any], note: Note = lambda *_, **__: None
    ) -> None:
        self._store = store
        self._flags = flags
        self._note = note
        self._is_noted = False

    def check(self, *, makes: bool) -> None:
        """Raises Contradiction; InvalidInput: the flags do not make a group though they should;
        StoreUnavailable.
        """
        meta = self._store.meta()
        if meta.settings is None:
            if makes:
                self._check_stream(self._settings())
        elif why := self.why_not(meta):
            raise Contradiction(why)

    def why_not(self, meta: Meta) -> str:
        """How the flags contradict the group as it is; "" when they do not. What was changed since
        the group was made contradicts nobody: a supervisor starts its agent with the old flags.
        """
        found = _differing(meta, meta.settings, self._flags) if meta.settings else {}
        changed = [found.pop(name) for name in _changed(meta) & found.keys()]
        if changed and not self._is_noted:
            self._is_noted = True
            self._note("the group was changed since, and counts", flags="; ".join(sorted(changed)))
        return f"group {self._store.group!r}: {'; '.join(found.values())}" if found else ""

    def make_group(self) -> bool:
        """True: it is there now; False: these flags do not make one, another agent's may. Raises
        StoreUnavailable.

        Nothing is granted for a lease: if Redis was wiped, owners that it does not know any more
        may still be at work. Whoever is killed in between leaves no group of which trimming or a
        dashboard does not know.
        """
        try:
            settings = self._settings()
        except InvalidInput:
            return False
        self._store.note_reader(settings)
        self._store.note_group()
        self._store.run(recovery.hold(settings.lease_ms))
        call = configure(
            settings,
            Reason.SETTINGS,
            rebalance_due=False,
            over_epoch=0,
            coordination=Coordination.CLIENT,
        )
        self._store.run(call)
        return True

    def _check_stream(self, settings: GroupSettings) -> None:
        """Raises InvalidInput: of another count it would not have this group among its readers."""
        there = self._store.stream_partitions(settings.stream)
        if there not in (0, settings.partitions):
            raise Contradiction(
                f"stream {settings.stream!r} has {there} partitions, not {settings.partitions}"
            )

    def _settings(self) -> GroupSettings:
        missing = {"stream", "partitions"} - self._flags.keys()
        if missing:
            raise InvalidInput(
                f"group {self._store.group!r} is not in Redis: to make it, give "
                + " and ".join(f"--{name}" for name in sorted(missing))
            )
        if strategy := self._flags.get("strategy"):
            from assignment import strategies  # loads numpy, for who makes the group

            strategies.known(strategy)
        return GroupSettings.of(self._flags)


def _differing(meta: Meta, settings: GroupSettings, flags: Mapping[str, Any]) -> dict[str, str]:
    """Both values of each flag that the group has otherwise."""
    asked = {"coordination": str(Coordination.CLIENT), **flags}
    there = {"coordination": str(meta.coordination), **settings.values()}
    return {
        name: f"--{name} {value} was given, and it is {there[name]}"
        for name, value in asked.items()
        if there[name] != value
    }


def _changed(meta: Meta) -> set[str]:
    """Flags that say how a group is made, and of which it may be otherwise by now. One that was put
    back counts its epochs from 1 again, under a higher incarnation.
    """
    epochs = {"coordination": meta.mode_epoch, "strategy": meta.settings_epoch}
    return {name for name, epoch in epochs.items() if max(epoch, meta.incarnation) > 1}
