"""How values look on a page: state as icon and word, unknown as a dash with a reason."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from assignment.pauses import Pause
from assignment.setting import Flag
from assignment.settings import SETTINGS, GroupSettings
from dashboard.live.attention import Rule
from dashboard.pages import amounts, differences, texts
from dashboard.pages.help import finding
from dashboard.records.queries import colours

register = template.Library()
# A list has one a row, and mostly the same: some hundred bytes each. A text that is escaped already
# is another one.
remembered = lru_cache(4_096, typed=True)

# (icon of img/icons.svg, tone of page.css) -> states
_SHOWN = {
    ("full", "ok"): (
        *("owned", "alive", "done", "steady", "valid", "ready", "clean", "held", "active"),
        *("allowed", "delivered", "approved", "confirmed"),
    ),
    ("in", "busy"): (
        *("acquiring", "joining", "running", "rebalancing", "pending", "restoring", "learning"),
        "moving",
    ),
    ("out", "busy"): ("releasing",),
    ("out", "warn"): ("draining", "leaving", "stopped"),
    ("hollow", ""): (
        *("empty", "idle", "left", "superseded", "revoked", "cancelled", "deactivated"),
        *("draft", "rejected", "not attempted", "taken", "dropped"),
    ),
    ("hollow", "warn"): ("unowned", "vacuous", "unchanged"),
    ("clock", ""): ("waiting", "proposed"),
    ("clock", "warn"): ("expired", "suspect", "unable", "lagging", "stale"),
    ("cut", "warn"): ("unserved", "unreachable"),
    ("cut", "bad"): ("no coordinator",),
    ("pause", ""): ("paused",),
    ("pause", "busy"): ("pausing",),
    ("pause", "warn"): ("stalled",),
    ("pause", "bad"): ("halted",),
    ("swing", "warn"): ("flapping",),
    ("tilt", "warn"): ("unbalanced",),
    ("alert", "bad"): ("conflict", "lost", "died", "forced", "dead", "violated"),
    ("alert", "warn"): ("failed", "partly done", "not healed"),
    ("question", ""): ("unknown",),
}
STATES = {word: shown for shown, words in _SHOWN.items() for word in words}


@register.simple_tag
def state(word: str, why: str = "") -> SafeString:
    return _state(word, why)


@remembered
def _state(word: str, why: str) -> SafeString:
    icon, tone = STATES.get(word, ("question", ""))
    values = {"word": word, "icon": icon, "tone": tone, "why": why}
    return SafeString(render_to_string("dashboard/_state.html", values).strip())


@register.filter
def flag(settings: GroupSettings, name: str) -> str:
    """What a flag of the group's settings is called as it is set."""
    declared = SETTINGS[name]
    assert isinstance(declared, Flag), name
    return declared.said(getattr(settings, name))


REASONS = {  # why a partition is halted, or not served by a member
    "malformed": "a malformed event; the group's policy is to halt",
    "crash": "an event that ends its consumer each time",
    "sink": "Redis is ahead of the sink",
    "restore": "its state cannot be restored there",
    "batch": "its batches fail there",
    "stall": "it has lag and commits nothing there",
}


@register.filter
def reason_text(reason: str) -> str:
    return REASONS.get(reason, reason)


@register.filter
def paused_by(pause: Pause | None) -> str:
    return texts.paused_by(pause or None)


@remembered
def unknown(why: str) -> SafeString:
    return format_html('<span class="unknown" title="{}">—</span>', why or "not known yet")


@remembered
def _titled(whole: str, shown: str) -> SafeString:
    return format_html('<span title="{}">{}</span>', whole, shown)


def is_missing(value: object) -> bool:
    """Templates make "" of what is not there."""
    return value is None or value == ""


# Causes of a rebalance whose own word says too little, and what each of them means.
CAUSES = {
    "manual": ("manual", "a person asked for it"),
    "scale-down": ("scale-down", "members are drained"),
    "forced": ("scale-down, forced", "members that are drained are forced out"),
    "cancelled": ("scale-down, cancelled", "members that are drained stay"),
    "ready": ("learner ready", "a learner has restored its state and takes over"),
    "stateful": ("stateful changed", "the group's setting `stateful` was changed"),
    "strategy": ("strategy changed", "the group's strategy or its parameters were changed"),
    "standbys": ("standbys changed", "the group's setting `standby_replicas` was changed"),
    "learners": ("learners changed", "the group's setting `learners_max` was changed"),
    "partitions": ("partitions changed", "the stream's partitions were changed"),
    "member lost": ("member lost", "a member gave no sign of life for its session"),
    "leave": ("leave", "a member left"),
    "leaving": ("leaving", "a member is ending"),
    "join": ("join", "a member joined"),
    "able": ("able", "a member's consumer is ready to process"),
    "unable": ("unable", "a member's consumer cannot process"),
}


@register.simple_tag
def cause(word: str) -> SafeString:
    label, meaning = CAUSES.get(word, (word, ""))
    return _titled(meaning, label)


@register.filter
def cause_label(word: str) -> str:
    return CAUSES.get(word, (word, ""))[0]


@register.filter
def outcomes(row: Any) -> list[tuple[str, int]]:
    """Of a scale-down: how many members did what; "leaving" for those still here."""
    counts = Counter(entry["outcome"] or "leaving" for entry in row.members.values())
    return sorted(counts.items())


@register.filter
def beyond(found: Sequence[Any], most: int) -> int:
    """How many are left out of a list that shows so many."""
    return max(0, len(found) - most)


NUMBERS_SHOWN = 200  # of one cell


@register.filter
def numbers(found: Sequence[int]) -> str:
    """Partition numbers; runs of three and more as first–last."""
    parts: list[str] = []
    for first, last in texts.runs(found):
        run = range(first, last + 1)
        parts += [f"{first}–{last}"] if len(run) > 2 else map(str, run)
    more = f", and {len(parts) - NUMBERS_SHOWN} more" if len(parts) > NUMBERS_SHOWN else ""
    return ", ".join(parts[:NUMBERS_SHOWN]) + more


def _if_known(name: str, show: Callable[[Any], str], otherwise: str = "") -> None:
    """A filter whose argument says why there is no value: the title of a dash."""

    def shown(value: Any, why: str = otherwise) -> str:
        return unknown(why) if is_missing(value) else show(value)

    register.filter(name, shown)


_if_known("num", texts.grouped)
_if_known("dec", partial(texts.grouped, decimals=2))
_if_known("percent", texts.percent)
_if_known("duration", amounts.span)
_if_known("at", lambda moment: _time(moment, texts.exact(moment)[:19].replace("T", " ")))
_if_known("member", lambda id: _titled(id, texts.short_member(id)), "nobody")
_if_known("fence", lambda n: _titled(f"fence {n}", texts.fence(int(n))), "nobody holds the lock")
register.filter("clock", texts.exact)


@register.filter
def signed(value: int | None) -> str:
    """A difference, with its sign; a true minus."""
    if not value:
        return texts.DASH if value is None else "0"
    return f"{'+' if value > 0 else '−'}{texts.grouped(abs(value))}"


@register.filter
def eta(value_ms: float) -> str:
    """A guess of how long it takes yet: in whole seconds, at least one."""
    return _whole_seconds(max(1, -(-int(value_ms) // 1000)))


@register.filter
def left(until_ms: int, now_ms: int) -> str:
    """Of a countdown, in whole seconds."""
    return _whole_seconds(max(0, until_ms - now_ms) // 1000)


def _whole_seconds(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else amounts.span(seconds * 1000)


@register.filter
def whole(percent: float | None) -> str:
    """Percents rounded down, so that 100 is everything; "" where none is known."""
    return "" if is_missing(percent) else str(int(percent or 0))


_AT = '<time datetime="{0}" title="{0}">{1}</time>'
_AGO = '<time datetime="{0}" title="{0}" class="ago">{1}</time>'


def _time(moment: int | datetime, shown: str, tag: str = _AT) -> SafeString:
    """In UTC, to the millisecond in its title; times.js goes on from there."""
    return format_html(tag, texts.exact(moment), shown)


@register.filter
def since(value: int | None, now_ms: int) -> SafeString | str:
    """How long ago, with the moment itself as title."""
    if value is None:
        return unknown("never seen")
    return _time(value, amounts.span(now_ms - value), _AGO)


@register.filter
def old(age_ms: int) -> SafeString | str:
    """How old a row's progress is, where it is not of now."""
    if is_missing(age_ms) or age_ms < 1_000:
        return ""
    return format_html('<small class="muted">{} old</small>', amounts.span(age_ms))


@register.filter
def hue(value: int | None) -> str:
    """The class of a member's colour."""
    return "" if value is None else f"o{value % colours.HUES}"


@register.filter
def run_class(run: Any, hues: dict[str, int | None]) -> str:
    """The classes of a run of partitions in a strip: its member's colour, a hatch when later."""
    shade = (hue(hues.get(run.member)) or "is-new") if run.member else "is-nobody"
    return f"{shade} is-later" if run.is_later else shade


@register.filter
def member_ids(replicas: Sequence[Any]) -> str:
    return " ".join(replica.member for replica in replicas)


@register.simple_tag(takes_context=True)
def named(context: dict[str, Any], id: str | None, why: str = "nobody") -> SafeString:
    """A member: its colour and its short id; a dash with the reason where there is none."""
    return _named(hue(of(context["hues"], id)), id or "", why)


@remembered
def _named(shade: str, id: str, why: str) -> SafeString:
    shown = _titled(id, texts.short_member(id)) if id else unknown(why)
    return format_html('<i class="swatch {}"></i>{}', shade, shown)


@register.inclusion_tag("dashboard/_move.html", takes_context=True)
def move(context: dict[str, Any], number: int, giver: str, taker: str) -> dict[str, Any]:
    """The cells of a partition that changes hands: its number, from, to."""
    shared = {name: context[name] for name in ("group", "hues")}
    return shared | {"number": number, "giver": giver, "taker": taker}


_BAR = (
    '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
    '<rect width="{}" height="8" class="{}"/>{}</svg>'
)
_MEAN = '<line class="mean" x1="{0}" x2="{0}" y1="0" y2="8" vector-effect="non-scaling-stroke"/>'


@register.simple_tag
def bar(percent: str, shade: str = "", mean: float | None = None) -> SafeString:
    """`percent` of its width; a line where the `mean` is, as a share of 1."""
    line = "" if is_missing(mean) else format_html(_MEAN, times(mean or 0, 100))
    return format_html(_BAR, percent, shade, line)


@register.filter
def times(share: float, most: float) -> str:
    """A share of 1 as SVG takes it."""
    return f"{share * most:.3f}"


@register.filter
def share_of(value: float, whole: float) -> str:
    """Of 100."""
    return times(value / whole if whole else 0, 100)


@register.simple_tag
def sparkline(
    values: Sequence[float], least: float | None = None, most: float | None = None
) -> Any:
    """Points of a polyline in a box of 88 x 20; nothing with fewer than two values."""
    if len(values) < 2:
        return ""
    low = min(values) if least is None else least
    high = max(values) if most is None else most
    rise = (high - low) or 1
    points = [
        f"{2 + 82 * i / (len(values) - 1):.1f},{17 - 14 * (value - low) / rise:.1f}"
        for i, value in enumerate(values)
    ]
    x, _, y = points[-1].partition(",")
    svg = (
        '<svg class="spark" viewBox="0 0 88 20" aria-hidden="true">'
        '<polyline points="{}"/><circle cx="{}" cy="{}" r="2"/></svg>'
    )
    return format_html(svg, " ".join(points), x, y)


@register.filter
def short(member_id: str | None) -> str:
    return texts.short_member(member_id) if member_id else texts.DASH


@register.filter
def of(values: dict[str, Any], key: str | None) -> Any:
    """A dictionary's value; None when it has none."""
    return None if key is None else values.get(key)


@register.inclusion_tag("dashboard/_sort_head.html", takes_context=True)
def sort_head(context: dict[str, Any], name: str, label: str, kind: str = "") -> dict[str, Any]:
    """The head of a column that the list can be sorted by; again turns it round."""
    chosen = context["sort"]
    return {
        "label": label,
        "kind": kind,
        "order": {name: "ascending", f"-{name}": "descending"}.get(chosen, ""),
        "sort": f"-{name}" if chosen == name else name,
    }


@register.simple_tag
def step_url(rule: Rule, group: Any) -> str:
    """Where the next step of what needs attention is done."""
    return reverse(rule.page, args=[group.name] if rule.is_of_group else [])


@register.simple_tag
def what_to_do(heading: str) -> str:
    """The section of the operating guide with that heading."""
    return finding.what_to_do(heading)


@register.filter
def changes(row: Any) -> differences.Differences:
    """What differs between an entry's before and after."""
    return differences.between(row.before, row.after)
