"""A simulation that does not find a planted bug proves nothing."""

import pytest

from tests.simulation import seeds
from tests.simulation.planted import PLANTED

SEEDS_MAX = 200


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    assert any(seeds.run(seed).broken for seed in range(SEEDS_MAX))
