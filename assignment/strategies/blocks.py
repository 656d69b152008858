"""Contiguous blocks: what averagely, range and join_order share; they differ in who comes first."""

from collections.abc import Callable
from typing import Any

import numpy as np

from assignment.strategies.dense import Owners
from assignment.strategies.problem import Positions, Problem
from assignment.types import Member


def in_blocks(problem: Problem, rank: Positions) -> Owners:
    """Per topic over its readers by ascending rank; the first P mod N get one more.

    rank [N]: place of each member among all.
    """
    result = problem.nobody()
    for topic in problem.topics():
        ordered = topic.readers[np.argsort(rank[topic.readers], kind="stable")]
        smaller, larger_blocks = divmod(topic.end - topic.start, len(ordered))
        sizes = np.full(len(ordered), smaller)
        sizes[:larger_blocks] += 1
        result[topic.start : topic.end] = np.repeat(ordered, sizes)
    return result


def ranked(problem: Problem, key: Callable[[Member], Any]) -> Positions:
    """[N] place of each member when sorted by `key`; equal keys: by id."""
    order = sorted(range(len(problem.members)), key=lambda index: key(problem.members[index]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def static_first(member: Member) -> tuple[bool, str]:
    """Kafka's order: static members by instance id, then the others by member id.

    So a static member keeps its share when it comes back under another member id.
    """
    return not member.instance_id, member.instance_id or member.member_id
