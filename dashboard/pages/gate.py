"""The one middleware between an address and its page: somebody is logged in, and the matrix of
roles (actions/roles.py) opens the door of that name. A page without a door opens to nobody.
"""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from django.views.defaults import permission_denied

from dashboard.actions import access
from dashboard.actions.roles import (
    BY_TOKEN,
    DOORS,
    OWN,
    PUBLIC,
    Action,
    Denied,
    Door,
    Effect,
)
from dashboard.api.v1 import doors as api_doors
from dashboard.pages.views import base

LOOKING = ("GET", "HEAD")


class Gate(LoginRequiredMiddleware):
    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        match = request.resolver_match
        name = match.view_name if match else ""
        if name in PUBLIC or name in BY_TOKEN:
            return None
        if name.startswith(api_doors.NAMESPACE):
            return api_doors.enter(request, name, view_kwargs.get("name"))
        if not request.user.is_authenticated:
            return self.handle_no_permission(request, view_func)
        if name in OWN:
            return None
        door = DOORS.get(name)
        if door is None:
            raise PermissionDenied(f"{request.path} opens to nobody: it is not in the matrix")
        return _enter(request, door, view_kwargs.get("name"))

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        """What an action refused, and what cannot be read, with its sentence."""
        if isinstance(exception, Denied):
            return permission_denied(request, exception)
        if isinstance(exception, BadRequest):
            return render(request, "400.html", {"exception": str(exception)}, status=400)
        return None


def _enter(request: HttpRequest, door: Door, group: str | None) -> HttpResponseBase | None:
    """Raises Http404 where there is nothing to see, PermissionDenied."""
    looks = request.method in LOOKING
    action = door.looks if looks else door.changes
    looks = looks or door.only_asks(request.POST)
    if action is None:
        return HttpResponseNotAllowed(LOOKING)
    try:
        access.enter(base.by(request), action, group, looks=looks)
    except access.NotThere as error:
        raise Http404(str(error)) from error
    except Denied as error:
        raise PermissionDenied(str(error)) from error
    return None


def allowed(request: HttpRequest) -> dict[str, Any]:
    """Context processor, by the name of the action, for the group in the address.

    `can`: whether it is possible in any group; `closed`: the sentence why its page does not open,
    `refused`: why its change is not made; "" when it is.
    """
    match = getattr(request, "resolver_match", None)
    group = match.kwargs.get("name") if match else None
    return {
        "can": SimpleLazyObject(lambda: possible(request)),
        "closed": SimpleLazyObject(lambda: closed(request, group)),
        "refused": SimpleLazyObject(lambda: refused(request, group)),
    }


def possible(request: HttpRequest) -> dict[str, bool]:
    rights = base.rights_of(request)
    return {action.key: rights.anywhere(action) is not Effect.DENY for action in Action}


def closed(request: HttpRequest, group: str | None) -> dict[str, str]:
    rights = base.rights_of(request)
    return {
        action.key: "" if rights.may_look(action, group) else rights.why_not(action, group)
        for action in Action
    }


def refused(request: HttpRequest, group: str | None) -> dict[str, str]:
    rights = base.rights_of(request)
    return {action.key: rights.why_not(action, group) for action in Action}
