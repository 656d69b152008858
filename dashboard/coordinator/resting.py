"""Which groups a tick looks at: those that do not rest (assignment.coordinator.resting), by what
Redis and the database say of all of them at once; now and then also one that does.

What is kept of a look is valid whoever made it, and however old: it names all that it depends on.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import msgspec
from django.db.models import F

from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.resting import Looked, Rest, may_rest_on
from assignment.scripts.group_read import Gap, Ticker
from dashboard.coordinator import at_rest
from dashboard.coordinator.at_rest import AtRest, Kept
from dashboard.coordinator.rows import Asking, Row, Rows, loaded, read_rows
from dashboard.live import glances, rests
from dashboard.live import groups as live_groups
from dashboard.live.health import Troubles
from dashboard.live.queue import Share
from dashboard.live.together import Question, ask
from dashboard.models import Group

# A look that nothing asked for: so what nobody marked costs time, and no more. Such looks take
# about this share of a processor from the tickers.
UNASKED_SHARE = 0.0025
UNASKED_LEAST_MS, UNASKED_MOST_MS = 30_000, 3_600_000

# Groups that wait for others are left alone so long that looks at all of them, if all waited, took
# about this share: not at all where they are few.
WAITS_SHARE = 0.1
WAITS_LEAST_MS, WAITS_MOST_MS = 1_000, 10_000

Resting = Callable[[Mapping[str, Rest], Set[str], Gap], Set[str]]

log = logging.getLogger(__name__)
_known = rests.Known(at_rest.read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Awake:
    """A group to look at. `group` None: the database is away. `before`: by which it would rest on;
    None: there is reason to look; since `since_ms` it did. `groups`: how many there are in all.
    `may_fail`: as the last look perhaps did.
    """

    record: GroupRecord
    group: Group | None
    digest: int | None
    before: Rest | None
    since_ms: int
    is_asked: bool  # a person's request or plan is open
    is_kept: bool  # something of an earlier look
    groups: int
    ticker: Ticker
    may_fail: bool

    @property
    def name(self) -> str:
        return self.record.name


def all_of(names: Collection[str]) -> Collection[str]:
    return names


def resting(rests: Mapping[str, Rest], _: Set[str], away: Gap) -> Set[str]:
    """Those that rest on, all asked. As `glances.Watch.resting`, which remembers."""
    found = glances.glances(rests)
    return {name for name, glance in found.items() if may_rest_on(rests[name], glance, away)}


class Known(NamedTuple):
    """What a ticker knows from round to round: by `rows` of all groups, by `at_rest` which of them
    would rest, and by `resting` which of those do. `asked`: what all three ask first.
    """

    rows: Callable[[], tuple[Mapping[str, Row], Asking]]
    at_rest: AtRest
    resting: Resting
    asked: Callable[[], list[Question[Any]]]


def remembering() -> Known:
    rows, kept, watch = Rows(), rests.Known(at_rest.read), glances.Watch()

    def asked() -> list[Question[Any]]:
        return [*rows.asked(), *kept.asked(), *watch.asked()]

    return Known(rows, AtRest(kept.news), watch.resting, asked)


def _reading() -> Known:
    """Without any memory."""
    return Known(read_rows, AtRest(rests.Known(at_rest.read).news), resting, list)


class Found(NamedTuple):
    """`awake`: of the share; each is read when it is asked for. `groups`: all that there are.
    `away`: of the share, whose node of a Redis Cluster does not answer.
    """

    awake: Iterator[Awake]
    groups: Set[str]
    away: Set[str]


class Said(Protocol):
    """Signs of life of whoever ticks (running.py)."""

    def asked(self) -> Question[Share]: ...
    def __call__(self) -> Share: ...


def awake(
    said: Said,
    share_of: Callable[[Collection[str]], Collection[str]] = all_of,
    in_order: Callable[[Sequence[str]], Sequence[str]] = list,
    known: Known | None = None,
    troubles: Question[Troubles] | None = None,
) -> Found:
    """Groups of one's share to look at now; `known` None: all are read. `said`, `troubles`: a sign
    of life is given with what is asked first, and what says at which the last look failed. Raises
    StoreUnavailable.
    """
    known = known or _reading()
    ask([said.asked(), *known.asked(), *([troubles] if troubles else [])])
    ticker = said().ticker
    rows, asking = known.rows()
    mine = share_of(rows)
    away, would = glances.away(mine), known.at_rest
    would.bring_forward(rows, mine if not away else [name for name in mine if name not in away])
    if would.changed or away:  # what is away is looked at when it is back
        rests.forget((would.kept.keys() - rows.keys()) | (would.kept.keys() & away))
    failing = troubles.answer().failing if troubles else frozenset[str]()
    some = _Some(rows, would, asking, ticker, known.resting, len(rows), failing)
    return Found(some.awake(in_order), rows.keys(), away)


def awake_one(name: str, ticker: Ticker) -> list[Awake]:
    """The same, of this group alone: one or none. `ticker`: of whoever ticked last."""
    rows, asking = read_rows(name)
    text = rests.kept_of(name)
    found = None if text is None else at_rest.read(text)
    kept = {} if found is None else {name: found}
    would = AtRest(lambda: (kept, kept.keys()))
    would.bring_forward(rows, rows)
    of_all = len(live_groups.known_groups())
    return list(_Some(rows, would, asking, ticker, resting, of_all).awake(list))


class _Some(NamedTuple):
    """Groups, and what says which of them do not rest. `groups`: how many there are in all, of
    which `rows` may be one. `failing` None: that is not known.
    """

    rows: Mapping[str, Row]
    at_rest: AtRest
    asking: Asking
    ticker: Ticker
    resting: Resting
    groups: int
    failing: Set[str] | None = None

    def awake(self, in_order: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[Awake]:
        """Which they are is known by now; each is read when it is asked for."""
        still, names = self._resting(), self.at_rest.names
        due = self.at_rest.due(self.ticker.seen_ms)
        if not names <= still:
            due |= names - still
        in_order_of_rows = [name for name in self.rows if name in due] if due else []
        return self._read(in_order(in_order_of_rows), still)

    def _read(self, names: Sequence[str], still: Set[str]) -> Iterator[Awake]:
        kept = self.at_rest.kept
        for name, record, group in loaded(names, self.rows):
            row, rests_on = self.rows[name], name in still and not kept[name].waits
            yield Awake(
                record=record,
                group=group,
                digest=row.digest,
                before=kept[name].rest if rests_on else None,
                since_ms=kept[name].since_ms if rests_on else 0,
                is_asked=row.digest is None or row.pk in self.asking,
                is_kept=name in kept,
                groups=self.groups,
                ticker=self.ticker,
                may_fail=self.failing is None or name in self.failing,
            )

    def _resting(self) -> Set[str]:
        """Those that rest on."""
        would, asking = self.at_rest, self.asking
        still = self.resting(would.rests, would.changed, self.ticker.away)
        would.changed.clear()
        barred = set(self.failing or ())
        if asking:
            barred |= {name for name, row in self.rows.items() if row.pk in asking}
        return still - barred if barred else still


def begin(one: Awake) -> None:
    """What was kept is not valid any more."""
    if one.is_kept:
        rests.forget([one.name])


def has_come(name: str) -> None:
    """What a look at this group may have waited for: the next tick looks again, sooner than at one
    of which nobody knows that anything changed.
    """
    if rests.kept_of(name) is not None:
        rests.forget([name])


def keep(one: Awake, looked: Looked, took_s: float) -> None:
    """What came of the look at it. `took_s`: of CPU."""
    rest = looked.rest
    if one.before is not None and looked.is_missed(one.before, one.ticker.away):
        log.error("group=%s had something to do that nothing marked", one.name)
        Group.objects.filter(name=one.name).update(missed_looks=F("missed_looks") + 1)
    if rest is None or one.digest is None:
        return
    period_ms = (_waits_ms if looked.waits else _period_ms)(one.name, took_s, one.groups)
    if looked.waits and period_ms < WAITS_LEAST_MS:
        return
    is_same = one.before is not None and _seen(one.before) == _seen(rest)
    kept = Kept(
        rest=rest,
        digest=one.digest,
        until_ms=rest.looked_ms + period_ms,
        since_ms=one.since_ms if is_same else rest.looked_ms,
        waits=looked.waits,
    )
    rests.keep(one.name, msgspec.json.encode(kept))


def _seen(rest: Rest) -> tuple[str, str]:
    return rest.run_id, rest.counted


def quiet() -> dict[str, int]:
    """Groups that rest and have no members -> the moment of the look since which they do. Raises
    StoreUnavailable.
    """
    found = _known.all().items()
    return {
        name: kept.since_ms for name, kept in found if not kept.waits and not kept.rest.patience_ms
    }


def _period_ms(name: str, took_s: float, groups: int) -> int:
    """Until the next look that nothing asks for; spread, so that they do not all come at once."""
    period_ms = took_s * 1_000 * groups / UNASKED_SHARE
    return round(min(max(period_ms, UNASKED_LEAST_MS), UNASKED_MOST_MS) * _spread(name))


def _waits_ms(name: str, took_s: float, groups: int) -> int:
    """Until the next look at one that waits, if nothing of it changes."""
    return round(min(took_s * 1_000 * groups / WAITS_SHARE * _spread(name), WAITS_MOST_MS))


def _spread(name: str) -> float:
    return 0.5 + crc32(name.encode()) / 2**33
