"""RocketMQ's AllocateMessageQueueByConfig: a fixed map given by an operator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from assignment.errors import InvalidInput
from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.parameters import Span, mapping, only, spans
from assignment.strategies.problem import Positions, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """config_map: member id -> its partitions."""

    NAMES: ClassVar[tuple[str, ...]] = ("config_map",)
    config_map: Mapping[str, tuple[Span, ...]]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        only(values, cls.NAMES, required=cls.NAMES)
        given = mapping("config_map", values["config_map"])
        return cls(
            config_map={m: spans(f"config_map of {m!r}", own) for m, own in sorted(given.items())}
        )


def owners(problem: Problem, parameters: Parameters) -> Owners:
    """The map itself. Without members nothing is assigned.

    InvalidInput lists members and partitions that are not there, partitions given to a member that
    does not read them, given twice (RocketMQ allows that), and given to nobody.
    """
    result = problem.nobody()
    if not problem.members:
        return result
    times = np.zeros(len(result), dtype=np.int64)
    wrong = []
    for member, own in parameters.config_map.items():
        if member not in problem.dense.member_ids:
            wrong.append(f"member {member!r} is not there")
            continue
        index = problem.dense.member_ids.index(member)
        wrong += [f"{partition} of {member!r} is not there" for partition in problem.missing(own)]
        for where in problem.slices(own):
            result[where] = index
            times[where] += 1
    wrong += _faults(problem, result, times)
    if wrong:
        raise InvalidInput(f"config_map does not fit: {'; '.join(wrong)}")
    return result


def _faults(problem: Problem, result: Owners, times: Positions) -> list[str]:
    topic, subscribed = problem.topic_of, problem.dense.subscribed
    given = np.flatnonzero(result != NOBODY)
    unread = given[~subscribed[topic[given], result[given]]]
    gaps = np.flatnonzero((times == 0) & problem.is_read)
    found = (
        (unread, "given to a member that does not read it"),
        (np.flatnonzero(times > 1), "given more than once"),
        (gaps, "given to nobody"),
    )
    return [f"{problem.named(where)} {what}" for where, what in found if len(where)]
