"""The one web process: agents' routes first, then Channels' sockets, then Django's pages."""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

from django.core.asgi import get_asgi_application

pages = get_asgi_application()  # before the imports below: they need the app registry

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from assignment.wire import API_PREFIX  # noqa: E402
from dashboard.agents.routes import AgentApi, Receive, Send  # noqa: E402
from dashboard.live.connection import close_async_client  # noqa: E402
from dashboard.push.origin import OwnOrigin  # noqa: E402
from dashboard.push.sockets import websocket_urlpatterns  # noqa: E402

agents = AgentApi()
people = ProtocolTypeRouter(
    {
        "http": pages,
        "websocket": OwnOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "http" and scope["path"].startswith(API_PREFIX):
        await agents(scope, receive, send)
    elif scope["type"] == "lifespan":
        await _lifespan(receive, send)
    else:
        await people(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await close_async_client()
            await send({"type": "lifespan.shutdown.complete"})
            return
