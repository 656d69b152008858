"""Addresses of one Redis and of a Redis Cluster."""

from pathlib import PurePath

import pytest

from assignment.errors import InvalidInput
from assignment.rights import has_login, token_file_in, user_in, with_login, with_token_file
from assignment.servers import is_cluster, node_url, nodes_of, shown
from assignment.slots import Address

URL = "redis+cluster://ann:p%40w@a:7001,b:7002,[::1]:7003,c?x=1"


def test_an_address_names_the_nodes_of_a_cluster() -> None:
    assert is_cluster(URL) and is_cluster("rediss+cluster://a")
    assert not is_cluster("redis://a:1") and not is_cluster("a+cluster:7001")
    nodes = (Address("a", 7001), Address("b", 7002), Address("::1", 7003), Address("c", 6379))
    assert nodes_of(URL) == nodes
    assert shown(URL) == "a:7001,b:7002,[::1]:7003,c"


def test_a_node_is_reached_under_the_same_login_and_options() -> None:
    assert node_url(URL, Address("d", 1)) == "redis://ann:p%40w@d:1?x=1"
    assert node_url("rediss+cluster://a", Address("::1", 2)) == "rediss://[::1]:2"


def test_logins_are_read_from_a_clusters_address_too() -> None:
    plain = "redis+cluster://a:7001,b:7002"
    assert (has_login(URL), user_in(URL), has_login(plain)) == (True, "ann", False)
    assert nodes_of(with_login(plain, "token")) == nodes_of(plain)
    assert token_file_in(with_token_file(plain, PurePath("/t"))) == "/t"


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://a:7001,",
        "redis+cluster://a:port",
        "redis+cluster://a:99999",
        "redis+cluster://a:7001/3",
        "redis+cluster://" + ",".join(["a"] * 65),
    ],
)
def test_what_is_no_address_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(InvalidInput):
        nodes_of(url)
