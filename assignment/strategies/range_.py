"""Kafka's range: contiguous per topic, so that topics with equal readers and counts line up."""

from assignment.strategies.blocks import in_blocks, ranked, static_first
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


def owners(problem: Problem, _: NoParameters) -> Owners:
    """Blocks as of `averagely`, static members first by instance id, then the others by id.

    Co-partitioned topics (same readers, same count) give a member the same numbers of each.
    """
    return in_blocks(problem, ranked(problem, static_first))
