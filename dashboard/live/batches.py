"""A Batch for each node of a Redis Cluster, so that no group waits for another's node."""

from typing import Any

from assignment.scripts.values import Arguments
from assignment.wire import GroupKeys
from dashboard.live import nodes
from dashboard.live.batch import Batch
from dashboard.live.connection import node_of, reaching_redis
from dashboard.live.scripts import Script


class Batches:
    def __init__(self) -> None:
        self._of: dict[str, Batch] = {}

    async def call(
        self, script: Script, group: str, arguments: Arguments, *of_call: Any, **options: Any
    ) -> tuple[Any, int]:
        """As Batch.call. What a node refuses that does not have the group's slot any more was not
        carried out, and is asked of the one that has.
        """
        if nodes.cluster() is None:
            return await self._at("").call(script, group, arguments, *of_call, **options)
        try:
            found = await self._server(group)
            return await found.call(script, group, arguments, *of_call, **options)
        except nodes.Moved:
            found = await self._server(group)
            return await found.call(script, group, arguments, *of_call, **options)

    @property
    def lag_s(self) -> float:
        """Of the last trips to each node, the longest."""
        return max((batch.lag_s for batch in self._of.values()), default=0.0)

    async def _server(self, group: str) -> Batch:
        with reaching_redis():
            return self._at(await node_of(GroupKeys(group).meta))

    def _at(self, url: str) -> Batch:
        if url not in self._of:
            self._of[url] = Batch(url)
        return self._of[url]
