"""Strategies that look at numbers of partitions only: contiguous blocks, or dealt in turn."""

from collections.abc import Callable
from typing import Any

import numpy as np

from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Positions, Problem
from assignment.types import Member


def averagely(problem: Problem, _: NoParameters) -> Owners:
    """RocketMQ's AllocateMessageQueueAveragely: contiguous blocks over a topic's readers by id.
    8 partitions on 3 members: 0-2, 3-5, 6-7; 2 on 4: 0, 1, -, -.
    """
    return _in_blocks(problem, np.arange(len(problem.members)))


def range_(problem: Problem, _: NoParameters) -> Owners:
    """Kafka's range: blocks, static members first by instance id, then the others by id.
    Co-partitioned topics (same readers, same count) give a member the same numbers of each.
    """
    return _in_blocks(problem, _ranked(problem, _static_first))


def join_order(problem: Problem, _: NoParameters) -> Owners:
    """Runnel's split: blocks over the members in the order in which they joined.
    5 partitions over 1 to 6 members: 5; 3 2; 2 2 1; 2 1 1 1; 1 each; 1 each and 0.
    Members that joined in the same millisecond: by id.
    """
    return _in_blocks(problem, _ranked(problem, lambda member: member.joined_at_ms))


def circle(problem: Problem, _: NoParameters) -> Owners:
    """RocketMQ's AllocateMessageQueueAveragelyByCircle: per topic, reader i (by id) of N takes i,
    i + N, i + 2N ... 8 partitions on 3 members: 0 3 6, 1 4 7, 2 5.
    """
    result = problem.nobody()
    for topic in problem.topics():
        result[topic.start : topic.end] = np.resize(topic.readers, topic.end - topic.start)
    return result


def round_robin(problem: Problem, _: NoParameters) -> Owners:
    """Kafka's round robin: all partitions of all topics dealt in turn over the members subscribed.
    The turn goes on from topic to topic and passes over members that do not read one.
    Static members first by instance id, then the others by member id.
    """
    rank = _ranked(problem, _static_first)
    result = problem.nobody()
    turn = 0  # rank of the member whose turn it is
    for topic in problem.topics():
        ordered = topic.readers[np.argsort(rank[topic.readers], kind="stable")]
        first = int(np.searchsorted(rank[ordered], turn))
        dealt = np.resize(np.roll(ordered, -first), topic.end - topic.start)
        result[topic.start : topic.end] = dealt
        turn = (int(rank[dealt[-1]]) + 1) % len(rank)
    return result


def _in_blocks(problem: Problem, rank: Positions) -> Owners:
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


def _ranked(problem: Problem, key: Callable[[Member], Any]) -> Positions:
    """[N] place of each member when sorted by `key`; equal keys: by id."""
    order = sorted(range(len(problem.members)), key=lambda index: key(problem.members[index]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _static_first(member: Member) -> tuple[bool, str]:
    """Kafka's order: static members by instance id, then the others by member id.
    So a static member keeps its share when it comes back under another member id.
    """
    return not member.instance_id, member.instance_id or member.member_id
