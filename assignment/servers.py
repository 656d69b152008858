"""What agents and dashboard say alike of a Redis: its oldest version, its address.

A Redis Cluster has the address redis+cluster://[user:password@]host:port[,host:port ...][?options]
(rediss+cluster:// where it is encrypted): any of these nodes tells where the others are.
"""

from urllib.parse import urlsplit

from assignment.errors import InvalidInput
from assignment.slots import Address

OLDEST = (6, 2)  # XTRIM MINID, SET PXAT
PORT = 6379
NODES_MAX = 64  # named in one address
_CLUSTER = "+cluster"


def shown(url: str) -> str:
    """Its address without user, password and options, which may hold one too."""
    rest = url.partition("://")[2] or url
    return rest.partition("?")[0].rpartition("@")[2]


def is_cluster(url: str) -> bool:
    scheme, is_url, _ = url.partition("://")
    return bool(is_url) and scheme.endswith(_CLUSTER)


def nodes_of(url: str) -> tuple[Address, ...]:
    """Of a cluster, those that its address names. Raises InvalidInput."""
    place, has_path, path = shown(url).partition("/")
    if has_path and path not in ("", "0"):
        raise InvalidInput(f"a Redis Cluster has no database {path!r}: leave it out of the address")
    nodes = tuple(_address(text) for text in place.split(","))
    if len(nodes) > NODES_MAX:
        raise InvalidInput(f"{len(nodes)} nodes are named: {NODES_MAX} are enough")
    return nodes


def node_url(url: str, node: Address) -> str:
    """Of one node of that cluster, under the same login and options."""
    scheme, _, rest = url.partition("://")
    place, _, options = rest.partition("?")
    login, is_login, _ = place.rpartition("@")
    host = f"[{node.host}]" if ":" in node.host else node.host
    at = f"{scheme.removesuffix(_CLUSTER)}://{login}{is_login}{host}:{node.port}"
    return f"{at}?{options}" if options else at


def _address(text: str) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise InvalidInput(f"{text!r} is not host:port of a node")
    return Address(host, port or PORT)
