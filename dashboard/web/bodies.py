"""How large a request's body may be, by route: refused before it is read, or as soon as it is
larger. Django would keep it all, on disk if need be, before it asks who is there.

Agents' routes are not bounded here: they check the token first, and know their group.
"""

from typing import Any

from django.urls import Resolver404, resolve

from dashboard.agents.requests import Receive, Send
from dashboard.web import problems
from dashboard.web.kept import TooMuch, kept
from dashboard.web.visitors import sender_of

FORM_MAX = 2**16
# A few forms carry more: strategy `config` names the member of each partition, a scale-down its
# members. As much as Django takes of any form.
LARGE_MAX = 2_621_440
LARGE = ("new_group", "group_settings", "rebalance_preview", "new_scale_down")
LARGE_API = ("v1:groups", "v1:settings", "v1:rebalances", "v1:preview", "v1:scale_downs")
LOGIN = ("login", "single_sign_on", "single_sign_on_callback")
LOGIN_MAX = 2**13
KEPT_MAX = 2**23  # of one user's bodies at a time, or of an address whose user is not known
SAYS_BODY = (b"content-length", b"transfer-encoding")


class TooLarge(Exception):
    """The text is for whoever sent it."""


class Bounded:
    """An ASGI application whose requests have bodies within bounds."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        said = [v for k, v in scope["headers"] if k in SAYS_BODY] if scope["type"] == "http" else ()
        if not said:
            await self._application(scope, receive, send)
            return
        most, size = most_bytes(scope["path"]), 0

        async def receive_within() -> dict[str, Any]:
            nonlocal size
            message = await receive()
            come = len(message.get("body", b""))
            size += come
            check(size)
            space.add(come, not message.get("more_body"))
            return message

        def check(size: int) -> None:
            if size > most:
                raise TooLarge(f"A request of this page has at most {most} bytes.")

        with kept.of(sender_of(scope), KEPT_MAX) as space:
            try:
                check(max((int(value) for value in said if value.isdigit()), default=0))
                await self._application(scope, receive_within, send)
            except TooLarge as error:
                await problems.refuse(scope, send, 413, str(error))
            except TooMuch:
                why = "You have sent much that is not read yet; try again."
                await problems.refuse(scope, send, 503, why)


def most_bytes(path: str) -> int:
    try:
        name = resolve(path).view_name
    except Resolver404:
        return FORM_MAX
    if name in LOGIN:
        return LOGIN_MAX
    return LARGE_MAX if name in LARGE or name in LARGE_API else FORM_MAX
