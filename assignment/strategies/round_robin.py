"""Kafka's round robin: all partitions of all topics dealt in turn over the members subscribed."""

import numpy as np

from assignment.strategies.blocks import ranked, static_first
from assignment.strategies.dense import Owners
from assignment.strategies.parameters import NoParameters
from assignment.strategies.problem import Problem


def owners(problem: Problem, _: NoParameters) -> Owners:
    """The turn goes on from topic to topic and passes over members that do not read one.

    Static members first by instance id, then the others by member id.
    """
    rank = ranked(problem, static_first)
    result = problem.nobody()
    turn = 0  # rank of the member whose turn it is
    for topic in problem.topics():
        ordered = topic.readers[np.argsort(rank[topic.readers], kind="stable")]
        first = int(np.searchsorted(rank[ordered], turn))
        dealt = np.resize(np.roll(ordered, -first), topic.end - topic.start)
        result[topic.start : topic.end] = dealt
        turn = (int(rank[dealt[-1]]) + 1) % len(rank)
    return result
