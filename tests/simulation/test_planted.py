"""A simulation that does not find a planted bug proves nothing."""

import pytest

from tests.simulation import planted, planted_replicas, planted_rounds, round_seeds, seeds

SEEDS_MAX, ROUND_SEEDS_MAX = 200, 500
STATEFUL = [seeds.scenario_of(seed) for seed in range(SEEDS_MAX) if seeds.is_stateful(seed)]


@pytest.mark.parametrize("bug", planted.PLANTED)
def test_a_bug_of_scripts_agents_or_coordinator_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.PLANTED[bug](monkeypatch)
    assert any(seeds.run(seed).broken for seed in range(SEEDS_MAX))


@pytest.mark.parametrize("bug", planted_replicas.PLANTED)
def test_a_bug_of_replicas_or_scale_downs_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted_replicas.PLANTED[bug](monkeypatch)
    fault = planted_replicas.SHOWN_BY.get(bug)
    shown_by = [s.seed for s in STATEFUL if not fault or fault in {name for _, name in s.faults}]
    assert any(seeds.run(seed).broken for seed in shown_by)


@pytest.mark.parametrize("bug", planted_rounds.PLANTED)
def test_a_bug_of_the_planner_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted_rounds.PLANTED[bug](monkeypatch)
    assert any(round_seeds.run(seed).broken for seed in range(ROUND_SEEDS_MAX))
