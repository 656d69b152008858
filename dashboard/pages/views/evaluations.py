"""Runs of chaos: listed, compared, opened; an admin starts one."""

from pathlib import Path

from csp.constants import NONE, UNSAFE_INLINE
from csp.decorators import csp_replace
from django import forms
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from assignment import strategies
from dashboard.actions.groups import Refused
from dashboard.evaluation import stored
from dashboard.evaluation.chaos.asked import COORDINATIONS, FAULTS, SEED_MAX, Asked, split
from dashboard.evaluation.stored import Evaluation
from dashboard.pages.forms import Form
from dashboard.pages.views import base
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.queries.pages import page_of

START = "start evaluation"
PAGE = 50
COMPARED_MAX = 1_000
# The page that a run wrote has its scripts in it; it may reach nothing.
ALONE = {
    "default-src": [NONE],
    "script-src": [UNSAFE_INLINE],
    "style-src": [UNSAFE_INLINE],
    "img-src": ["data:"],
}
AGENTS_MAX, SECONDS_MAX = 10, 60  # beside a dashboard that people use


class NewEvaluation(Form):
    fault = forms.CharField(
        max_length=200,
        label="Fault, several by +",
        widget=forms.TextInput(attrs={"list": "faults", "class": "wide", "autocomplete": "off"}),
    )
    agents = forms.IntegerField(min_value=1, max_value=AGENTS_MAX, initial=3)
    partitions = forms.IntegerField(min_value=1, max_value=100, initial=12)
    seconds = forms.IntegerField(min_value=1, max_value=SECONDS_MAX, initial=5, label="It lasts, s")
    seed = forms.IntegerField(min_value=0, max_value=SEED_MAX, initial=1)
    coordination = forms.ChoiceField(choices=[(name, name) for name in COORDINATIONS])
    strategy = forms.ChoiceField(
        choices=[(name, name) for name in strategies.NAMES], initial=strategies.DEFAULT
    )

    def asked(self) -> Asked:
        """Raises InvalidInput."""
        values = dict(self.cleaned_data)
        return Asked(faults=split(values.pop("fault"), "+"), fast=True, **values)


def evaluations(request: HttpRequest) -> HttpResponse:
    form = NewEvaluation(base.sent(request))
    if base.attempt(request, form, lambda by: _start(form.asked(), by)) is not None:
        return base.done(request, "The run has begun.", "evaluations")
    found, before = Evaluation.objects.all(), base.Asked(request.GET).filters().before
    context = {
        "section": "evaluations",
        "form": form,
        "faults": [name for name in FAULTS if not name.startswith("fixed-")],  # no victims here
        "page": page_of(found.filter(pk__lt=before) if before else found, PAGE),
        "compared": stored.compared(found[:COMPARED_MAX]),
    }
    return base.show(request, "evaluations", context, fragments=("evaluations",))


@audit.attempted(START, in_group=False, named=lambda asked: "+".join(asked.faults))
def _start(asked: Asked, by: By) -> Evaluation:
    """On record before it begins. Raises InvalidInput, Refused."""

    def note(row: Evaluation) -> None:
        audit.record(by, START, object=row.faults, after={"command": row.command})

    try:
        return stored.start(asked, by.actor, note)
    except OSError as error:
        raise Refused(f"no process can be started: {error.strerror}") from error


@csp_replace(ALONE)  # type: ignore[arg-type]  # of views with arguments too
def evaluation_report(request: HttpRequest, pk: int) -> FileResponse:
    path: Path = get_object_or_404(Evaluation, pk=pk).folder / "report.html"
    if not path.exists():
        raise Http404("This run has no report.")
    return FileResponse(path.open("rb"), content_type="text/html; charset=utf-8")
