"""A step of scaling_check whose scale-down was over before it could be hurt is run again."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.checks.scaling import TRIES, OverTooSoon, Scaling


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> Scaling:
    monkeypatch.setattr(Scaling, "reach", lambda self, consumers: None)
    return Scaling(cast(Any, SimpleNamespace(say=lambda text: None)), keys=1)


def over_too_soon(times: int) -> Any:
    left = [OverTooSoon] * times

    def step(scaling: Scaling) -> None:
        if left:
            raise left.pop()

    return step


def test_a_step_is_run_until_it_could_be_hurt(scaling: Scaling) -> None:
    scaling.tried(over_too_soon(TRIES - 1))


def test_one_that_never_could_is_an_error_of_the_check(scaling: Scaling) -> None:
    with pytest.raises(TreeFailed, match="over before they could be hurt"):
        scaling.tried(over_too_soon(TRIES))
