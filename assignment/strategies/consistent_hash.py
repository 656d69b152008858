"""RocketMQ's AllocateMessageQueueConsistentHash: a ring of virtual nodes, MD5, clockwise.

Spelled as there, so that both give one answer: a virtual node is `<member>-<replica>`, a partition
is the text of a MessageQueue. A stream has no broker; its place is taken by the name that
RocketMQ's own tests use.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from assignment.strategies.dense import Owners
from assignment.strategies.parameters import only, whole
from assignment.strategies.problem import Positions, Problem

VIRTUAL_NODES = 10
VIRTUAL_NODES_MAX = 1_000  # times 2,000 members is a second of hashing
_QUEUE, _BROKER = "MessageQueue [topic=", "brokerName=brokerName"
Hashes = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """virtual_nodes: points of each member on the ring; more of them are more even."""

    NAMES: ClassVar[tuple[str, ...]] = ("virtual_nodes",)
    virtual_nodes: int = VIRTUAL_NODES

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        only(values, cls.NAMES)
        nodes = values.get("virtual_nodes", VIRTUAL_NODES)
        return cls(virtual_nodes=whole("virtual_nodes", nodes, 1, VIRTUAL_NODES_MAX))


def owners(problem: Problem, parameters: Parameters) -> Owners:
    """Each partition goes to the next point clockwise, its own hash included.

    A leaver's partitions alone move, and only to a newcomer. No promise of balance.
    """
    points, members = _ring(problem, parameters.virtual_nodes)
    result = problem.nobody()
    for topic in problem.topics():
        name = problem.dense.topics[topic.place]
        numbers = problem.numbers[topic.start : topic.end].tolist()
        hashes = _hashes(f"{_QUEUE}{name}, {_BROKER}, queueId={n}]" for n in numbers)
        reads = problem.dense.subscribed[topic.place][members]
        ring, owner = _without_collisions(points[reads], members[reads])
        result[topic.start : topic.end] = owner[np.searchsorted(ring, hashes) % len(ring)]
    return result


def _ring(problem: Problem, virtual_nodes: int) -> tuple[Hashes, Positions]:
    """Points by hash, and whose each is; equal hashes in the order of member ids."""
    names = (f"{m}-{node}" for m in problem.dense.member_ids for node in range(virtual_nodes))
    points = _hashes(names)
    order = np.argsort(points, kind="stable")
    return points[order], order // virtual_nodes


def _without_collisions(points: Hashes, members: Positions) -> tuple[Hashes, Positions]:
    """Of equal points the last one counts, as a later put into a map does."""
    last = np.append(points[1:] != points[:-1], True)
    return points[last], members[last]


def _hashes(texts: Iterable[str]) -> Hashes:
    """The first four bytes of each MD5, highest first."""
    digests = b"".join(md5(t.encode(), usedforsecurity=False).digest()[:4] for t in texts)
    return np.frombuffer(digests, dtype=">u4").astype(np.uint32)
