"""When a learner is ready, as its own member decides it (L11, L12). The planner reads the flag."""

from collections.abc import Mapping

from assignment.planner.values import LearnerSettings, P


def caught_up(lag_records: int | None, *, before: bool, settings: LearnerSettings) -> bool:
    """Has it once reached the acceptable lag, of the end read at that moment?

    `before`: the answer so far, False for a replica that was thrown away. None: lag not known yet.
    """
    return before or (lag_records is not None and lag_records <= settings.acceptable_lag_records)


def ready_flags(learners: Mapping[P, bool], settings: LearnerSettings) -> dict[P, bool]:
    """partition -> ready, from partition -> caught up.

    Eager (learn_partial_rebalance): each for itself. Stable: all together, when all are.
    """
    if settings.learn_partial_rebalance:
        return dict(learners)
    return dict.fromkeys(learners, all(learners.values()))
