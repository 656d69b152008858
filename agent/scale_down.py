"""`evenkeel-agent scale-down`: tells members to leave, straight in Redis, and waits till they have.

By the rules of a dashboard, which a group needs no more than this. What it told stays told when it
ends early; asked again for the same it goes on.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from agent import addresses
from agent.config import ExitCode
from agent.coordination.effects import RedisEffects
from agent.coordination.memory import Memory
from agent.store.cluster import door_to
from agent.store.door import StoreUnavailable, Timeouts
from agent.store.group import GroupStore
from assignment.coordinator import effects
from assignment.coordinator.draining import advance
from assignment.coordinator.facts import Leaver, Outcome, ScaleDown, ScaleDowns, State
from assignment.coordinator.leaving import Asked, asked_of, leavers, why_stateless
from assignment.coordinator.scale_down import whole_number
from assignment.errors import EvenkeelError, InvalidInput
from assignment.scripts.dashboard_side import set_drain
from assignment.scripts.group_read import GroupRead, Purpose, read_group
from assignment.types import Coordination, Drain, valid_name

TIMEOUTS = Timeouts(connect_s=2.0, answer_s=10.0)
LOOK_MS = 500
AWAY_S = 1.0
INTERRUPTED = 130  # as shells say it of Ctrl-C
Say = Callable[[str], None]


class Refused(EvenkeelError):
    """Right in form, but not as things stand."""


def main(arguments: Sequence[str]) -> int:
    try:
        given = _parser().parse_args(arguments)
        return int(_run(given))
    except InvalidInput as error:
        return _ended(ExitCode.BAD_CONFIGURATION, error)
    except Refused as error:
        return _ended(ExitCode.REFUSED, error)
    except StoreUnavailable as error:
        return _ended(ExitCode.REDIS_UNUSABLE, error)


def _ended(code: ExitCode, error: Exception) -> int:
    print(f"evenkeel-agent: {error}", file=sys.stderr)
    return int(code)


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evenkeel-agent scale-down",
        description="Members of a stateful group leave once others have learned their state."
        " Ends when they are gone.",
        epilog="exit codes: 0 done, 2 bad input, 3 refused or given back, 4 no Redis, 130 Ctrl-C",
        allow_abbrev=False,
    )
    parser.error = _bad_arguments  # type: ignore[method-assign]
    parser.add_argument("--group", default=os.environ.get("EVENKEEL_GROUP"))
    parser.add_argument("--redis-url", default=os.environ.get("EVENKEEL_REDIS_URL"))
    addresses.add_options(parser, os.environ)
    text = "of the group, where the URL has no login; else EVENKEEL_TOKEN"
    parser.add_argument("--token-file", default=os.environ.get("EVENKEEL_TOKEN_FILE"), help=text)
    parser.add_argument("--percent", help="how many of the live members remain, 1 to 100")
    parser.add_argument("--member", action="append", help="who is to leave; may be repeated")
    parser.add_argument(
        "--timeout", metavar="S", help="seconds, after which the rest are forced out"
    )
    parser.add_argument("--abort-at-timeout", action="store_true", help="the rest then stay")
    parser.add_argument("--force", action="store_true", help="also when all members would leave")
    parser.add_argument("--dry-run", action="store_true", help="tell who would leave, no more")
    parser.add_argument("--cancel", action="store_true", help="whoever is leaving stays")
    return parser


def _bad_arguments(message: str) -> NoReturn:
    raise InvalidInput(message)


def _run(given: argparse.Namespace) -> int:
    for name in ("group", "redis_url"):
        if not getattr(given, name):
            raise InvalidInput(f"--{name.replace('_', '-')} is missing")
    if given.cancel and (given.percent or given.member):
        raise InvalidInput("--cancel takes everything back: give neither --percent nor --member")
    asked = None if given.cancel else asked_of(given.percent, given.member)
    timeout_ms = None if given.timeout is None else 1_000 * whole_number("timeout", given.timeout)
    if timeout_ms is not None and timeout_ms < 0:
        raise InvalidInput(f"timeout {given.timeout} is below 0")
    if given.abort_at_timeout and not timeout_ms:
        raise InvalidInput("--abort-at-timeout needs a --timeout above 0")
    door = door_to(addresses.redis_url_of(given), TIMEOUTS, _token(given.token_file))
    store = GroupStore(door, valid_name("group", given.group))
    try:
        view = store.run(read_group(Purpose.LOOK))
        _check(store.group, view)
        if asked is None:
            return _cancel(store, view)
        leave = _chosen(view, asked, force_all=given.force)
        verb = "would leave" if given.dry_run else "told to leave"
        stay = len(view.members) - len(leave)
        _say(f"{len(view.members)} members: {stay} stay, {verb}: {', '.join(leave) or 'nobody'}")
        if given.dry_run or not leave:
            return ExitCode.LEFT
        drains = Drains(store, view, leave, timeout_ms, aborts=given.abort_at_timeout)
        return _until_gone(drains)
    finally:
        store.close()


def _token(file: str | None) -> Callable[[], str] | None:
    if file:
        return Path(file).read_text
    token = os.environ.get("EVENKEEL_TOKEN", "")
    return (lambda: token) if token else None


def _check(name: str, view: GroupRead) -> None:
    """Raises Refused."""
    meta = view.meta
    if meta.settings is None:
        raise Refused(f"group {name} is not in this Redis")
    if meta.identity and meta.coordination is Coordination.SERVER:
        raise Refused(f"group {name} has a dashboard: scale it down there")
    if not meta.settings.stateful:
        raise Refused(why_stateless(name))


def _chosen(view: GroupRead, asked: Asked, *, force_all: bool) -> tuple[str, ...]:
    """Raises Refused. Who was told before is among them, or stays told."""
    try:
        leave, refused = leavers(view, asked, force_all=force_all)
    except InvalidInput as error:
        raise Refused(str(error)) from error
    if refused:
        raise Refused(refused)
    if others := sorted(told(view) - set(leave)):
        raise Refused(f"{', '.join(others)} were told to leave before: --cancel that first")
    return leave


def told(view: GroupRead) -> set[str]:
    return {member for member, row in view.members.items() if row.drain is not Drain.NONE}


def _cancel(store: GroupStore, view: GroupRead) -> int:
    version = view.meta.drain_version + 1
    stay = store.run(set_drain(Drain.NONE, sorted(told(view)), version))
    _say(f"told to stay: {', '.join(stay) or 'nobody, none was leaving'}")
    return ExitCode.LEFT


class Drains(RedisEffects):
    """One scale-down, whose record this process alone has."""

    def __init__(
        self,
        store: GroupStore,
        view: GroupRead,
        leave: Sequence[str],
        timeout_ms: int | None,
        *,
        aborts: bool,
    ) -> None:
        super().__init__(store, "scale-down", lambda *_, **values: None, Memory("", store.group))
        self.row = ScaleDown(
            pk=1,
            asked_at_ms=view.now_ms,
            timeout_ms=timeout_ms,
            aborts=aborts,
            members={member: Leaver() for member in leave},
        )
        self._version = view.meta.drain_version + 1
        self._told: dict[str, int] = {}  # member -> when it had joined

    def turn(self) -> GroupRead:
        """Raises StoreUnavailable; Refused when somebody else took it back: a dashboard, whose
        records are without this scale-down, would do so again and again.
        """
        view = self.store.run(read_group(Purpose.LOOK))
        here = {m: view.members[m] for m in self.row.remaining if m in view.members}
        stay = sorted(m for m, row in here.items() if row.drain is Drain.NONE)
        if back := [m for m in stay if self._told.get(m) == here[m].joined_at_ms]:
            raise Refused(f"somebody else took it back from {', '.join(back)}: a dashboard, say")
        self.carry_out(advance(view))
        self._told = {m: row.joined_at_ms for m, row in here.items()}
        return view

    def perform(self, effect: effects.Effect[Any]) -> Any:
        match effect:
            case effects.ReadScaleDowns():
                return ScaleDowns(version=self._version, records=(self.row,))
            case effects.KeepScaleDowns(changed=(row,), next_version=version, notes=notes):
                self.row, self._version = row, version
                for note in notes:
                    _say(f"{note.action}: {note.reason}")
                return True
            case effects.KeepForced():
                return None
        return super().perform(effect)


def _until_gone(drains: Drains) -> int:
    said = trouble = ""
    after: Mapping[str, str] = drains.store.last_hints(drains.store.keys.control)
    try:
        while drains.row.state is State.RUNNING:
            try:
                now, trouble = progress(drains.turn(), drains.row), ""
                if now != said:
                    _say(said := now)
                after = drains.store.wait_hints(after, LOOK_MS).after
            except StoreUnavailable as error:
                if not trouble:
                    _say(trouble := f"waiting for Redis: {error}")
                time.sleep(AWAY_S)
    except KeyboardInterrupt:
        left = ", ".join(drains.row.remaining)
        _say(f"ended early; still told to leave: {left} (--cancel takes it back)")
        return INTERRUPTED
    went = drains.row.members.items()
    _say(", ".join(f"{member}: {leaver.outcome}" for member, leaver in sorted(went)))
    return ExitCode.LEFT if drains.row.state is State.DONE else ExitCode.REFUSED


def progress(view: GroupRead, row: ScaleDown) -> str:
    """What each that is here still holds, and how much of it others have learned."""
    ready = {p for member in view.members.values() for p in member.ready}
    parts = []
    for member in row.remaining:
        held = {p for p, lock in view.locks.items() if lock.member_id == member}
        how = ", at once" if row.members[member].forced else ""
        parts.append(f"{member} holds {len(held)}, {len(held & ready)} learned{how}")
    gone = sum(leaver.outcome is not Outcome.HERE for leaver in row.members.values())
    return f"{gone} of {len(row.members)} gone; {'; '.join(parts) or 'nobody is left'}"
