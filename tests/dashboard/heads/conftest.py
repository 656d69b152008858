import asyncio
from collections.abc import AsyncIterator

import pytest

from dashboard.agents.routes import AgentApi
from dashboard.models import Group
from tests.dashboard.agents import JOIN, token_of
from tests.dashboard.heads.beating import Beating, asks
from tests.dashboard.heads.counting import Counting
from tests.dashboard.served import serving


@pytest.fixture
async def beating(group: Group) -> AsyncIterator[Beating]:
    token = await asyncio.to_thread(token_of, group)
    api = AgentApi()
    async with serving(api, kind=Counting) as web:
        one = Beating(await web.open(), group, token)
        one.web, one.api = web, api
        assert (await one.connection.ask(asks("join", group.name, token, JOIN)))[0] == 200
        assert [await one.beat() for _ in range(2)] == [200, 200]
        Counting.read = 0
        yield one
