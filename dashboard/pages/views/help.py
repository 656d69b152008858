"""Help: the repository's documents, and their pictures."""

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.pages.help import documents
from dashboard.pages.help.rendered import render
from dashboard.pages.views import base

NO_FILE = "This installation has no {}: Help is read from the checkout that the dashboard runs in."
PICTURE_CACHED = "private, max-age=3600"


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    context = {"section": "help", "documents": documents.DOCUMENTS}
    return base.show(request, "help", context)


@require_safe
def page(request: HttpRequest, page: str) -> HttpResponse:
    document = documents.BY_SLUG.get(page)
    if document is None:
        raise Http404(f"Help has no page {page!r}.")
    try:
        rendered = render(document)
    except FileNotFoundError as error:
        raise Http404(NO_FILE.format(document.path)) from error
    context = {
        "section": "help",
        "documents": documents.DOCUMENTS,
        "document": document,
        "rendered": rendered,
    }
    return base.show(request, "help", context)


@require_safe
def image(request: HttpRequest, image: str) -> HttpResponseBase:
    path = documents.image(image)
    if path is None or not path.is_file():
        raise Http404(f"Help has no picture {image!r}.")
    answer = FileResponse(path.open("rb"), content_type=documents.KINDS[path.suffix])
    answer["Cache-Control"] = PICTURE_CACHED
    return answer
