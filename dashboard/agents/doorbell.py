"""Asks Celery for rebalances outside of any request: publishing costs 3-5 ms, a heartbeat has 0.2.

Coalesced (backend.md): INCR wanted, SET queued NX PX, and only who set `queued` publishes. A ring
that is lost is found by the next tick.
"""

import asyncio
import logging

from channels.db import database_sync_to_async

from dashboard.coordinator import want_rebalance
from dashboard.live.connection import StoreUnavailable

GATHER_S = 0.05  # who joins is seldom alone; a target for the first would be made anew for the next
GROUPS_MAX = 10_000  # twice the groups aimed at

log = logging.getLogger(__name__)
_ask = database_sync_to_async(want_rebalance, thread_sensitive=False)


class Doorbell:
    """One per event loop; `ring` never waits."""

    def __init__(self) -> None:
        self._rung: set[str] = set()
        self._answering: asyncio.Task[None] | None = None

    def ring(self, group: str) -> None:
        if len(self._rung) < GROUPS_MAX:
            self._rung.add(group)
        if self._answering is None:
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        try:
            while self._rung:
                await asyncio.sleep(GATHER_S)
                rung, self._rung = self._rung, set()
                for group in rung:
                    await _ask_for(group)
        finally:
            self._answering = None


async def _ask_for(group: str) -> None:
    try:
        await _ask(group)
    except StoreUnavailable as error:
        log.warning("rebalance not asked for group=%s: %s", group, error)
    except Exception:  # the top of a loop: one group's trouble is not the others'
        log.exception("rebalance not asked for group=%s", group)
