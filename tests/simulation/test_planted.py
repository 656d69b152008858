"""A simulation that does not find a planted bug proves nothing."""

import pytest

from tests.simulation.conftest import Ahead
from tests.simulation.outcome import Outcome
from tests.simulation.planting import BUGS


def outcome_of(name: str) -> Outcome | None:
    return BUGS[name].outcome()


@pytest.mark.ahead(of=outcome_of)
@pytest.mark.timeout(900)  # waits for what has the lowest priority
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_for_its_own_reason(name: str, ahead: Ahead) -> None:
    assert BUGS[name].reason
    assert ahead(outcome_of, name)
