"""A group that needs no dashboard: made by the first of its agents, and as its flags say."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agent.store.group import GroupStore
from assignment.errors import InvalidInput
from assignment.scripts import recovery
from assignment.scripts.dashboard_side import configure
from assignment.scripts.group_read import Meta
from assignment.types import Coordination, GroupSettings, Reason


class Founder:
    """`flags`: by the names of GroupSettings, those that were given."""

    def __init__(self, store: GroupStore, flags: Mapping[str, Any]) -> None:
        self._store = store
        self._flags = flags

    def check(self, *, makes: bool) -> None:
        """Raises InvalidInput: the flags contradict the group as it is, or do not make one though
        they should; StoreUnavailable.
        """
        meta = self._store.meta()
        if meta.settings is None:
            if makes:
                self._check_stream(self._settings())
        elif why := self.why_not(meta):
            raise InvalidInput(why)

    def why_not(self, meta: Meta) -> str:
        """How the flags contradict the group as it is; "" when they do not."""
        found = _contradictions(meta, meta.settings, self._flags) if meta.settings else ()
        return f"group {self._store.group!r}: {'; '.join(found)}" if found else ""

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
            raise InvalidInput(
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
        return GroupSettings(**self._flags)


def _contradictions(meta: Meta, settings: GroupSettings, flags: Mapping[str, Any]) -> list[str]:
    asked = {"coordination": str(Coordination.CLIENT), **flags}
    there = {"coordination": str(meta.coordination), **asdict(settings)}
    return [
        f"--{name} {value} was given, and it is {there[name]}"
        for name, value in asked.items()
        if there[name] != value
    ]
