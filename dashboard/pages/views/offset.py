"""Setting the committed offset of one partition: what would come of it, then doing just that."""

from django.http import Http404, HttpRequest, HttpResponse

from assignment.errors import InvalidInput
from assignment.types import Offset
from dashboard.actions import offsets as actions
from dashboard.actions.roles import Action
from dashboard.live.connection import StoreUnavailable
from dashboard.pages.offset_form import OffsetForm
from dashboard.pages.views import base


def partition_offset(request: HttpRequest, name: str, number: int) -> HttpResponse:
    seen = base.see(name)
    if number >= seen.group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {seen.group.partitions - 1}.")
    asked, away, found = base.Asked(request.GET), "", None
    wanted = _wanted(asked)
    try:
        if wanted is not None:
            found = actions.outlook(seen.group, number, wanted, base.by(request))
    except StoreUnavailable as error:
        away = str(error)
    form = None
    if found is not None and wanted is not None:
        typed = name if found.is_large else ""
        form = OffsetForm(base.sent(request), initial={"seen": found.seen}, name=typed)
        place = (seen.group, number, wanted)
        if base.attempt(
            request, form, lambda by: actions.set_offset(*place, form.cleaned_data["seen"], by)
        ):
            said = f"The committed offset of partition {number} is {found.after}."
            return base.done(request, said, "partition_offset", name, number)
    context = base.group_context(seen, "group_partitions") | {
        "number": number,
        "asked": asked,
        "kinds": list(actions.To),
        "found": found,
        "away": away,
        "form": form,
        "jumps": actions.jumps(seen.group, number),
        "refused_here": base.rights_of(request).why_not(Action.SET_OFFSETS, name),
    }
    return base.show(request, "partition_offset", context)


def _wanted(asked: base.Asked) -> actions.Wanted | None:
    """None as long as nothing right was asked."""
    to = asked.choice("to", ["", *actions.To], "")
    at_ms = asked.moment("time") if to == actions.To.TIME else None
    if not to or asked.errors:
        return None
    try:
        offset = Offset.parse(asked.text("offset")) if to == actions.To.OFFSET else None
        return actions.Wanted(actions.To(to), offset, at_ms)
    except InvalidInput as error:
        asked.errors.append(str(error))
        return None
