"""What every answer to people goes out with, whichever view made it."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware

from dashboard.pages import texts

CACHING, LENGTH = "Cache-Control", "Content-Length"
Answers = Callable[[HttpRequest], HttpResponseBase]


@sync_only_middleware
def outgoing(get_response: Answers) -> Answers:
    """Kept by no cache, neither a proxy's nor a browser's, unless the view says otherwise; of a
    page all characters can be seen. Static files do not come here.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault(CACHING, "no-store")
        if isinstance(response, HttpResponse) and _is_page(response):
            _show_all(response)
        return response

    return answer


def _is_page(response: HttpResponse) -> bool:
    return response.get("Content-Type", "").startswith("text/html")


def _show_all(response: HttpResponse) -> None:
    text = response.content.decode(response.charset)
    if (shown := texts.visible(text)) != text:
        response.content = shown.encode(response.charset)
        if LENGTH in response:
            response[LENGTH] = str(len(response.content))
