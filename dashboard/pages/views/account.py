"""What each browser chooses (dark or light, UTC or local), and the end of a session."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from dashboard.pages.views import base

THEMES = ("dark", "light", "auto")
CLOCKS = ("utc", "local")
YEAR_S = 31_536_000


@require_POST
def change_theme(request: HttpRequest) -> HttpResponse:
    return _keep(request, "theme", THEMES)


@require_POST
def change_clock(request: HttpRequest) -> HttpResponse:
    return _keep(request, "clock", CLOCKS)


def _keep(request: HttpRequest, name: str, choices: Sequence[str]) -> HttpResponse:
    """Kept in a cookie, so that the first paint is right without a script."""
    base.only(request, ("next", name))
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = "/"
    response = HttpResponseRedirect(back)
    chosen = request.POST.get(name, "")
    if chosen in choices:
        response.set_cookie(name, chosen, max_age=YEAR_S, samesite="Lax", httponly=True)
    return response


def chosen(request: HttpRequest) -> dict[str, str]:
    """Context processor: theme ("" = the system's) and clock, each with the one after it."""
    theme, next_theme = _kept(request, "theme", THEMES, "auto")
    clock, next_clock = _kept(request, "clock", CLOCKS, "utc")
    return {
        "theme": "" if theme == "auto" else theme,
        "theme_name": theme,
        "next_theme": next_theme,
        "clock": clock,
        "next_clock": next_clock,
    }


def _kept(request: HttpRequest, name: str, choices: Sequence[str], default: str) -> tuple[str, str]:
    kept = request.COOKIES.get(name, default)
    kept = kept if kept in choices else default
    return kept, choices[(choices.index(kept) + 1) % len(choices)]


class LogOut(LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        base.only(request, ())
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer
