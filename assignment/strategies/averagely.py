"""RocketMQ's AllocateMessageQueueAveragely: contiguous blocks per topic."""

import numpy as np

from assignment.strategies.blocks import in_blocks
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


def owners(problem: Problem, _: NoParameters) -> Owners:
    """Per topic, contiguous blocks over its readers by id; the first P mod N get one more.

    8 partitions on 3 members: 0-2, 3-5, 6-7; 2 on 4: 0, 1, -, -.
    """
    return in_blocks(problem, np.arange(len(problem.members)))
