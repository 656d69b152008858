"""RocketMQ's AllocateMessageQueueAveragelyByCircle: dealt in turn per topic."""

import numpy as np

from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


def owners(problem: Problem, _: NoParameters) -> Owners:
    """Per topic, reader i (by id) of N takes i, i + N, i + 2N ...

    8 partitions on 3 members: 0 3 6, 1 4 7, 2 5.
    """
    result = problem.nobody()
    for topic in problem.topics():
        result[topic.start : topic.end] = np.resize(topic.readers, topic.end - topic.start)
    return result
