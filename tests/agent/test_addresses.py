"""The address of a Redis, as it is given and as it is shown."""

from pathlib import Path

import certifi
import pytest

from agent import addresses
from agent.store.cluster import ClusterDoor
from agent.store.door import StoreUnavailable, shown
from agent.store.group import GroupStore
from assignment.errors import InvalidInput
from assignment.slots import Address


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


@pytest.mark.parametrize(
    "url",
    ["redis+cluster://127.0.0.1:1,far:2", "rediss+cluster://far?ssl_cert_reqs=none", "redis+c://h"],
)
def test_each_node_of_a_cluster_is_reached_as_safely_as_one_redis(url: str) -> None:
    with pytest.raises(InvalidInput, match="--redis-url"):
        addresses.redis_url(url, insecure=False)


def test_the_nodes_of_a_cluster_are_trusted_by_the_same_authorities() -> None:
    ca = str(Path(certifi.where()))
    found = addresses.redis_url("rediss+cluster://a:1,b:2", insecure=False, ca=ca)
    assert found.startswith("rediss+cluster://a:1,b:2?ssl_ca_certs=")
    near = "redis+cluster://localhost:1,127.0.0.1:2"
    assert addresses.redis_url(near, insecure=False, ca=ca) == near


def test_who_may_speak_openly_to_this_machine_alone_is_led_to_no_other() -> None:
    near, far = ClusterDoor("redis+cluster://127.0.0.1:1"), ClusterDoor("redis+cluster://far:1")
    with pytest.raises(StoreUnavailable, match="another machine"):
        near._demand_safe([Address("10.0.0.1", 1)])
    near._demand_safe([Address("127.0.0.2", 1)])
    far._demand_safe([Address("10.0.0.1", 1)])
