"""Runnel's split: contiguous blocks over the members in the order in which they joined."""

from assignment.strategies.blocks import in_blocks, ranked
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


def owners(problem: Problem, _: NoParameters) -> Owners:
    """5 partitions over 1 to 6 members: 5; 3 2; 2 2 1; 2 1 1 1; 1 each; 1 each and 0.

    Members that joined in the same millisecond: by id.
    """
    return in_blocks(problem, ranked(problem, lambda member: member.joined_at_ms))
