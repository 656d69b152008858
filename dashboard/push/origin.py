"""A socket comes from a page of this dashboard: the same scheme, host and port, nothing less.

A cookie is sent along from every page of the same host, also from another port's or over plain
HTTP; only the origin tells them apart.
"""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

PORTS = {"http": 80, "https": 443}
SECURE = {"ws": "http", "wss": "https"}

Origin = tuple[str, str, int]


def origin_of(text: str) -> Origin | None:
    """None when it is none: no scheme, no host, a path, a port that is no number."""
    try:
        parts = urlsplit(text)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    if not parts.hostname or not port or "@" in text:
        return None
    if text.lower() != f"{parts.scheme}://{parts.netloc}".lower():
        return None
    return parts.scheme, parts.hostname, port


def is_own(scope: dict[str, Any]) -> bool:
    """Whether the page that opens this socket is one of ours, or of EVENKEEL_ORIGINS."""
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(given) != 1 or len(hosts) != 1:
        return False
    origin = origin_of(given[0])
    domain, _ = split_domain_port(hosts[0])
    if origin is None or not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    scheme = SECURE.get(scope.get("scheme", "ws"), "")
    own = origin_of(f"{scheme}://{hosts[0]}")
    return origin in {own, *map(origin_of, settings.CSRF_TRUSTED_ORIGINS)}


class OwnOrigin:
    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        application = self.application if is_own(scope) else WebsocketDenier()
        return await application(scope, receive, send)
