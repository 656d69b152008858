"""The rule of keys (one_slot.py) that every sentence of the contract keeps on the fake."""

import pytest

from assignment.wire import GroupKeys, StreamKeys
from tests.contract.one_slot import OneSlot

KEYS = GroupKeys("g")


@pytest.mark.parametrize(
    ("name", "keys", "text"),
    [
        ("sweep", KEYS.of_script, "redis.call('GET', 'ek:groups')"),
        ("sweep", KEYS.of_script, "redis.call('MGET', KEYS[1], 'ek:{h}:meta')"),
        ("sweep", KEYS.of_script, "redis.call('HSET', KEYS[2], 'f', 'v')"),
        ("sweep", (KEYS.meta,), "redis.call('GET', KEYS[1])"),
        ("look", (StreamKeys("s").entries(0),), "redis.call('GET', KEYS[1] .. ':producers')"),
        ("look", (StreamKeys("s").entries(0), "s:meta"), "redis.call('GET', KEYS[1])"),
    ],
)
def test_a_script_that_touches_more_is_found(
    name: str, keys: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fakes.server.text_of", lambda name: text)
    with pytest.raises(AssertionError):
        OneSlot().run_script(name, keys, [])
