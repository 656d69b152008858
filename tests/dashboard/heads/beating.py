"""An agent that beats over one connection, whose head is known."""

import json
from typing import Any

from dashboard.agents.routes import AgentApi
from dashboard.models import Group
from tests.dashboard.agents import BEAT
from tests.dashboard.served import Connection, Web, post


def asks(verb: str, group: str, token: str, body: Any) -> bytes:
    said = body if isinstance(body, bytes) else json.dumps(body).encode()
    return post(f"/api/agent/v1/{group}/{verb}", said, b"Authorization: Bearer " + token.encode())


class Beating:
    """An agent whose head is known to the routes."""

    def __init__(self, connection: Connection, group: Group, token: str) -> None:
        self.connection, self.group, self.token = connection, group, token
        self.sequence = 0
        self.web: Web
        self.api: AgentApi

    async def beat(self, **more: Any) -> int:
        self.sequence += 1
        beat = BEAT | {"sequence": self.sequence, "complete": self.sequence == 1} | more
        return await self.say(beat)

    async def say(self, body: Any) -> int:
        status, told = await self.connection.ask(
            asks("heartbeat", self.group.name, self.token, body)
        )
        self.told = json.loads(told)
        return status
