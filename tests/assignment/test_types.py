"""Settings of a group: what is refused, named; and that they travel."""

import json

import pytest

from assignment.errors import InvalidInput
from assignment.types import GroupSettings
from assignment.wire import parse_settings, settings_text
from tests.builders import settings
from tests.other_settings import others_than


def test_a_group_is_not_stateful_unless_said_so_and_the_rest_has_the_proposals_defaults() -> None:
    plain = settings()
    assert not plain.stateful
    assert (plain.standby_replicas, plain.learners_max, plain.acceptable_lag_records) == (0, 0, 0)
    assert plain.learn_partial_rebalance
    assert plain.scale_down_timeout_ms is None


@pytest.mark.parametrize("timeout_ms", [None, 0, 600_000])
def test_settings_travel_as_they_are(timeout_ms: int | None) -> None:
    chosen = settings(
        stateful=True,
        standby_replicas=1,
        learners_max=2,
        acceptable_lag_records=10_000,
        learn_partial_rebalance=False,
        scale_down_timeout_ms=timeout_ms,
    )
    assert parse_settings(settings_text(chosen)) == chosen


def test_every_setting_that_is_declared_travels() -> None:
    others = GroupSettings.of(settings().values() | others_than(settings()))
    assert parse_settings(settings_text(others)) == others != settings()


def test_settings_of_an_older_and_of_a_newer_dashboard_are_read() -> None:
    older = json.dumps({"stream": "flights", "partitions": 12})
    newer = json.dumps({"stream": "flights", "partitions": 12, "not_yet_known": 1})
    assert parse_settings(older) == parse_settings(newer) == settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stateful", "yes"),
        ("stateful", 1),
        ("learn_partial_rebalance", None),
        ("standby_replicas", -1),
        ("standby_replicas", 11),
        ("standby_replicas", True),
        ("learners_max", "2"),
        ("learners_max", None),
        ("acceptable_lag_records", 0.5),
        ("scale_down_timeout_ms", -1),
        ("scale_down_timeout_ms", "never"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        GroupSettings(stream="flights", partitions=12, **{name: value})  # type: ignore[arg-type]
