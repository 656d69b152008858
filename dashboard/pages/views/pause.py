"""Pausing and resuming: the whole group, or with `?partition=` one of its partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse

from dashboard.actions import pausing
from dashboard.actions.roles import Action
from dashboard.live.cells import LivePartition
from dashboard.pages.forms import PauseForm
from dashboard.pages.views import base
from dashboard.records.audit import By

ALL_TYPED_FROM = 32  # partitions of a group whose name is typed before all of it is paused
SHOWN_MAX = 200  # rows of partitions


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An owner that has not said yet that it plans nothing of `partitions`."""

    member: str
    version: str
    partitions: Sequence[int]


def pause(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    number = asked.partition("partition")
    if number is not None and number >= seen.group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {seen.group.partitions - 1}.")
    is_paused, why_not = _stands(seen, number)
    types_name = number is None and not is_paused and seen.group.partitions >= ALL_TYPED_FROM
    form = PauseForm(
        base.sent(request),
        initial={"do": "resume" if is_paused else "pause"},
        name=name if types_name else "",
    )
    if form.is_bound and why_not:
        form.add_error(None, why_not)
    numbers = None if number is None else [number]

    def act(by: By) -> pausing.Standing:
        carry_out = {"pause": pausing.pause, "resume": pausing.resume}[form.cleaned_data["do"]]
        return carry_out(seen.group, by, numbers)

    if done := base.attempt(request, form, act):
        return base.done(request, _said(done, number), *_back(name, number))
    rows = seen.snapshot.partitions if seen.snapshot else ()
    context = base.group_context(seen, "pause") | {
        "asked": asked,
        "form": form,
        "number": number,
        "is_paused": is_paused,
        "why_not": why_not or base.rights_of(request).why_not(Action.PAUSE, name),
        "alone": [row for row in rows if _is_alone(seen, row)][:SHOWN_MAX],
        "unconfirmed": _unconfirmed(seen, rows),
    }
    return base.show(request, "pause", context)


def _stands(seen: base.Seen, number: int | None) -> tuple[bool, str]:
    """Whether it is paused, and why nothing can be done to it now."""
    if seen.snapshot is None or seen.problem:
        return False, "What is paused is not known now."
    if number is None:
        return seen.snapshot.pause is not None, ""
    row = seen.snapshot.partitions[number]
    if row.pause is not None and not _is_alone(seen, row):
        return True, "The whole group is paused: resume the group."
    return row.pause is not None, ""


def _is_alone(seen: base.Seen, row: LivePartition) -> bool:
    """Paused by itself, whether or not its group is besides."""
    group = seen.snapshot.pause if seen.snapshot else None
    return row.pause is not None and row.pause != group


def _unconfirmed(seen: base.Seen, rows: Sequence[LivePartition]) -> list[Unconfirmed]:
    owned: dict[str, list[int]] = {}
    for row in rows:
        if row.state == "pausing" and row.owner:
            owned.setdefault(row.owner, []).append(row.number)
    versions = {m.id: m.version for m in seen.snapshot.members} if seen.snapshot else {}
    return [Unconfirmed(m, versions.get(m, ""), of) for m, of in sorted(owned.items())]


def _said(done: pausing.Standing, number: int | None) -> str:
    what = "The group" if number is None else f"Partition {number}"
    if not done.changed:
        return f"{what} was so already."
    if done.asked == "resume":
        return f"{what} goes on."
    return f"{what} is asked to stand still: {done.progress}."


def _back(name: str, number: int | None) -> tuple[str, *tuple[str | int, ...]]:
    return ("group", name) if number is None else ("partition", name, number)
