"""RocketMQ's AllocateMessageQueueAveragely: contiguous blocks per topic."""

import numpy as np

from assignment.strategies.dense import NOBODY, Dense, Owners
from assignment.strategies.given import Assigned, StrategyInput


def assign(given: StrategyInput) -> Assigned:
    """Per topic, contiguous blocks over its subscribers by id; the first P mod N get one more.

    8 partitions on 3 members: 0-2, 3-5, 6-7; 2 on 4: 0, 1, -, -. InvalidInput for an unknown topic.
    """
    dense = Dense.of(given, unknown_topics=False)
    return dense.named(owners(dense))


def owners(dense: Dense) -> Owners:
    result = np.full(dense.partitions, NOBODY, dtype=np.int32)
    for topic, (start, end) in enumerate(zip(dense.starts[:-1], dense.starts[1:], strict=True)):
        subscribers = np.flatnonzero(dense.subscribed[topic])
        if len(subscribers):
            smaller, larger_blocks = divmod(int(end - start), len(subscribers))
            sizes = np.full(len(subscribers), smaller)
            sizes[:larger_blocks] += 1
            result[start:end] = np.repeat(subscribers, sizes)
    return result
