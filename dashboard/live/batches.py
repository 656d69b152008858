"""A Batch for each node of a Redis Cluster, so that no group waits for another's node."""

from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any

from assignment.scripts.values import Arguments
from assignment.wire import GroupKeys
from dashboard.live import nodes
from dashboard.live.batch import Batch
from dashboard.live.connection import node_of, reaching_redis
from dashboard.live.scripts import Script


class Batches:
    """`is_alone`: see Batch. Nodes of a cluster do not stand still one after the other."""

    def __init__(self, is_alone: Callable[[], bool] = lambda: False) -> None:
        self._is_alone = is_alone
        self._of: dict[str, Batch] = {}

    def call(
        self, script: Script, group: str, arguments: Arguments, *of_call: Any, **options: Any
    ) -> Coroutine[Any, Any, tuple[Any, int]]:
        """As Batch.call, and of one Redis nothing else: each heartbeat comes this way."""
        if nodes.cluster() is None:
            return self._at("").call(script, group, arguments, *of_call, **options)
        return self._routed(script, group, arguments, *of_call, **options)

    async def _routed(self, script: Script, group: str, *of_call: Any, **options: Any) -> Any:
        """What a node refuses that does not have the group's slot any more was not carried out, and
        is asked of the one that has.
        """
        try:
            return await (await self._server(group)).call(script, group, *of_call, **options)
        except nodes.Moved:
            return await (await self._server(group)).call(script, group, *of_call, **options)

    @cached_property
    def only(self) -> Batch | None:
        """Of the one Redis; None: it is a cluster, and which node has a group is to be asked."""
        return self._at("") if nodes.cluster() is None else None

    @property
    def lag_s(self) -> float:
        """Of the last trips to each node, the longest."""
        return max((batch.lag_s for batch in self._of.values()), default=0.0)

    async def _server(self, group: str) -> Batch:
        with reaching_redis():
            return self._at(await node_of(GroupKeys(group).meta))

    def _at(self, url: str) -> Batch:
        if url not in self._of:
            self._of[url] = Batch(url) if url else Batch(is_alone=self._is_alone)
        return self._of[url]
