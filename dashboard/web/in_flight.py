"""Requests of people that are in flight: come, and not answered yet."""

from typing import Any

from dashboard.agents.requests import Receive, Send


class InFlight:
    """An ASGI application. `count`: of its requests; sockets, which stay for hours, are none."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.count = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        self.count += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self.count -= 1

    def is_none(self) -> bool:
        return not self.count
