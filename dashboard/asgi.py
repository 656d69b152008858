"""The one web process: agents' routes first, then Channels' sockets, then Django's pages."""

import ipaddress
import logging
import os
import sys
from contextlib import suppress
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

from django.core.asgi import get_asgi_application

pages = get_asgi_application()  # before the imports below: they need the app registry

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import DatabaseError  # noqa: E402

from assignment.wire import API_PREFIX  # noqa: E402
from dashboard import memory  # noqa: E402
from dashboard.agents.known_tokens import in_thread  # noqa: E402
from dashboard.agents.requests import Receive, Send  # noqa: E402
from dashboard.agents.routes import AgentApi  # noqa: E402
from dashboard.live.connection import close_async_client  # noqa: E402
from dashboard.push.origin import OwnOrigin  # noqa: E402
from dashboard.push.sockets import websocket_urlpatterns  # noqa: E402
from dashboard.records import audit  # noqa: E402
from dashboard.web import PROTOCOLS, problems  # noqa: E402
from dashboard.web.bodies import Bounded  # noqa: E402
from dashboard.web.in_flight import InFlight  # noqa: E402
from dashboard.web.liveness import LivenessFile  # noqa: E402
from dashboard.web.places import LEFT, Places  # noqa: E402
from dashboard.web.visitors import PEER  # noqa: E402

CLAIMS = (b"forwarded", b"x-real-ip", b"x-forwarded-")  # and whatever else begins so
NOBODY = "0.0.0.0"  # everybody whose address another server may have replaced by what they claimed

SWITCH_S = 0.001  # so soon a thread that reads a large report lets the loop go on

log = logging.getLogger(__name__)
liveness = LivenessFile.from_environment()
in_turn: Any = pages
if settings.IS_POOLED:
    in_turn = Places(pages, settings.DATABASE_POOL - LEFT, ("/healthz", settings.STATIC_URL))
people = InFlight(
    ProtocolTypeRouter(
        {
            "http": Bounded(in_turn),
            "websocket": OwnOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
        }
    )
)
agents = AgentApi(liveness.note_answer, people.is_none)


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    scope = as_connected(scope)
    if scope["type"] == "http" and scope["path"].startswith(API_PREFIX):
        await agents(scope, receive, send)
        return
    if has_nul(scope):
        await _refuse(scope, send)
    else:
        await people(scope, receive, send)
    liveness.note_answer()


def as_connected(scope: dict[str, Any]) -> dict[str, Any]:
    """With the address and the scheme of who connected; without headers that claim others.

    Behind a proxy (EVENKEEL_BEHIND_PROXY) those are what the one next to us added: the last of each
    list. Else nobody is believed, also when the server believed it: our own one says who connected;
    another uvicorn believes every process of its machine unless it has --no-proxy-headers.
    """
    scope, state = {**scope}, scope.get("state") or {}
    if is_told := PEER in state:
        scope["client"] = state[PEER]
    for name, _ in scope["headers"]:  # of each heartbeat, so no call for each
        if name.startswith(CLAIMS):
            break
    else:
        return scope
    kept, claims = [], dict[bytes, list[str]]()
    for header in scope["headers"]:
        name, value = header
        if name.startswith(CLAIMS):
            claims.setdefault(name, []).extend(value.decode("latin-1").split(","))
        else:
            kept.append(header)
    scope["headers"] = kept
    addresses = [_address(text) for text in claims.get(b"x-forwarded-for", ())]
    client = scope.get("client")
    if settings.BEHIND_PROXY:
        if addresses and addresses[-1]:
            scope["client"] = (addresses[-1], 0)
        if schemes := claims.get(b"x-forwarded-proto"):
            is_secure = schemes[-1].strip().lower() in ("https", "wss")
            names = ("wss", "ws") if scope["type"] == "websocket" else ("https", "http")
            scope["scheme"] = names[0] if is_secure else names[1]
    elif client and client[0] in addresses and not is_told:
        scope["client"] = (NOBODY, 0)
    return scope


def _address(text: str) -> str:
    """Without a port; "" for what is none."""
    text = text.strip()
    host = text.partition("]")[0].lstrip("[") if text.startswith("[") else text
    host = host.partition(":")[0] if host.count(":") == 1 else host
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def has_nul(scope: dict[str, Any]) -> bool:
    """No name has one, and PostgreSQL fails at a question with one instead of answering."""
    return "\0" in scope["path"] or b"%00" in scope.get("query_string", b"")


async def _refuse(scope: dict[str, Any], send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})
        return
    await problems.refuse(scope, send, 400, "No address has the character NUL.")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            if PROTOCOLS not in sys.modules:
                log.warning("strangers are not bounded here: start `python -m dashboard.web`")
            memory.settle()
            memory.keep_in_large_pages()
            sys.setswitchinterval(SWITCH_S)
            await send({"type": "lifespan.startup.complete"})
        else:
            await close_async_client()
            with suppress(DatabaseError):
                await in_thread(audit.floods.tell)()
            await send({"type": "lifespan.shutdown.complete"})
            return
