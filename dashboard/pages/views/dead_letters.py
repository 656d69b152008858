"""Dead letters of a group: what could not be read, or was skipped; discarded there, or replayed."""

from dataclasses import replace
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from assignment.errors import InvalidInput
from assignment.scripts.dead_letters import WAITING_MAX, LetterId, Replay
from dashboard.actions import dead_letters as actions
from dashboard.live.connection import StoreUnavailable
from dashboard.pages import texts
from dashboard.pages.forms import LettersForm
from dashboard.pages.views import base
from dashboard.records.audit import By


def dead_letters(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    which = actions.Which(number=asked.partition("partition"), reason=asked.text("reason"))
    if which.number is not None and which.number >= seen.group.partitions:
        most = seen.group.partitions - 1
        asked.errors.append(f"partition {which.number} is not one of 0 to {most}")
    below, asks = _below(asked), _query(which)
    form = LettersForm(base.sent(request))
    for error in asked.errors if form.is_bound else ():
        form.add_error(None, error)  # else more would be meant than was seen

    def act(by: By) -> actions.Discarded | actions.Asked:
        do, replays = form.cleaned_data["do"], form.cleaned_data["do"].startswith("replay")
        if do.endswith("chosen"):
            chosen = [LetterId.parse(text) for text in request.POST.getlist("letter")]
            return (actions.replay if replays else actions.discard)(seen.group, chosen, by)
        found = replace(which, until_ms=form.cleaned_data["until"])
        return (actions.replay_found if replays else actions.discard_found)(seen.group, found, by)

    if done := base.attempt(request, form, act, also=("letter",)):
        return base.done(request, _said(done), reverse("dead_letters", args=[name]) + asks)
    context = base.group_context(seen, "group_members") | {
        "asked": asked,
        "form": form,
        "asks": asks,
        "look": None,
        "at_once_max": actions.AT_ONCE_MAX,
        **_looked(request, seen, asked, which, below),
    }
    return base.show(request, "dead_letters", context)


def _looked(
    request: HttpRequest,
    seen: base.Seen,
    asked: base.Asked,
    which: actions.Which,
    below: LetterId | None,
) -> base.Context:
    if asked.errors:
        return {}
    try:
        found = actions.look(seen.group, which, base.by(request), below=below)
    except StoreUnavailable as error:
        return {"away": str(error)}
    rows = [_row(letter) for letter in found.letters]
    return {"look": found, "rows": rows, "total": sum(found.counts.values())}


def _below(asked: base.Asked) -> LetterId | None:
    try:
        text = asked.text("cursor")
        return LetterId.parse(text) if text else None
    except InvalidInput as error:
        asked.errors.append(str(error))
        return None


def _query(which: actions.Which) -> str:
    """Of the address that asks for these; "" for all."""
    said = {"partition": which.number, "reason": which.reason or None}
    query = urlencode({name: value for name, value in said.items() if value is not None})
    return f"?{query}" if query else ""


def _row(letter: actions.Letter) -> base.Context:
    """Of the table; signs that are not seen by their numbers."""
    kept = letter.kept
    return {
        "name": str(kept.name),
        "number": kept.name.number,
        "at_ms": kept.name.at.ms,
        "reason": texts.visible(kept.reason),
        "entry": texts.visible(kept.entry),
        "index": kept.index,
        "size": kept.size,
        "text": None if letter.text is None else texts.visible(letter.text),
        "asked_by": texts.visible(kept.asked_by),
        "is_sure": kept.is_sure,
    }


def _said(done: actions.Discarded | actions.Asked) -> str:
    count = len(done.letters)
    what = f"{count} dead letter{'' if count == 1 else 's'}"
    if isinstance(done, actions.Discarded):
        said = [f"{what} discarded."]
        said += [f"{done.waiting} wait to be replayed, and stay."] if done.waiting else []
        said += ["There may be more: discard again."] if done.more else []
        return " ".join(said)
    said = [f"{what} asked to be replayed."]
    said += [NOT_ASKED[why].format(number) for why, number in sorted(done.others.items())]
    said += ["There may be more: ask again when these were replayed."] if done.more else []
    return " ".join(said)


NOT_ASKED = {
    Replay.WAITS: "{} waited already.",
    Replay.GONE: "{} are gone.",
    Replay.FULL: "{} were too many: " + f"at most {WAITING_MAX} of a partition wait at once.",
    Replay.DOUBTED: "{} cannot be replayed: since they were kept an offset was set back, or Redis"
    " lost writes.",
}
