"""How many requests a token has a second."""

import pytest
from pytest_django.fixtures import Settings

from dashboard.agents import rate
from dashboard.agents.requests import Problem


def test_requests_are_told_to_redis_by_parts_of_their_limit(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AGENT_RATE_PER_SECOND = 10 * rate.UNTOLD_SHARE
    now_s = 1_000.0
    monkeypatch.setattr("dashboard.agents.rate.time.time", lambda: now_s)
    made = rate.Rate()
    counted = [made.admitted("g", 7) for _ in range(30)]
    assert [one.requests for one in counted] == 3 * [*[0] * 9, 10]
    made.counted(counted[0].name, 0)
    made.admitted("g", 7)
    made.counted(counted[9].name, settings.AGENT_RATE_PER_SECOND + 1)
    with pytest.raises(Problem):
        made.admitted("g", 7)
    made.admitted("g", 8)
    now_s += 1
    made.admitted("g", 7)
    made.counted(counted[9].name, settings.AGENT_RATE_PER_SECOND + 1)  # comes late
    made.admitted("g", 7)
