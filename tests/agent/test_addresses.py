"""The address of a Redis, as it is given and as it is shown."""

import pytest

from agent.store.door import shown
from agent.store.group import GroupStore
from assignment.errors import InvalidInput


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/0", "nonsense"])
def test_what_is_no_url_of_a_redis_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="not the URL of a Redis"):
        GroupStore.connect(url, "g")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://:pw@h:1/0", "h:1/0"),
        ("rediss://user:p%40w@h:1/0?password=pw", "h:1/0"),
        ("redis://h:1/0?password=pw&username=me@x", "h:1/0"),
        ("unix://user:pw@/run/redis.sock?db=1", "/run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_what_logs_in(url: str, address: str) -> None:
    assert shown(url) == address
