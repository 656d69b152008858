"""The choice of dark or light, and the end of a session."""

from typing import Any

from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from dashboard.pages.views import base

THEMES = ("dark", "light", "auto")
THEME_COOKIE = "theme"
YEAR_S = 31_536_000


@require_POST
def change_theme(request: HttpRequest) -> HttpResponse:
    """Kept in a cookie, so that the first paint is right without a script."""
    base.only(request, ("next", "theme"))
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = "/"
    response = HttpResponseRedirect(back)
    theme = request.POST.get("theme")
    if theme in THEMES:
        response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, samesite="Lax", httponly=True)
    return response


def theme(request: HttpRequest) -> dict[str, str]:
    """Context processor: the theme chosen ("" = the system's), and the one after it."""
    chosen = request.COOKIES.get(THEME_COOKIE, "auto")
    if chosen not in THEMES:
        chosen = "auto"
    after = THEMES[(THEMES.index(chosen) + 1) % len(THEMES)]
    return {"theme": "" if chosen == "auto" else chosen, "theme_name": chosen, "next_theme": after}


class LogOut(LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        base.only(request, ())
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer
