"""A simulation that does not find a planted bug proves nothing."""

import pytest

from tests.simulation.planting import BUGS


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_for_its_own_reason(name: str) -> None:
    assert BUGS[name].reason
    assert BUGS[name].outcome()
