"""Which addresses may be told: hosts that an admin allowed, and of those no address inside.

A name is looked up once, its addresses are checked, and these are connected to: a name that points
elsewhere a moment later reaches nothing.
"""

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from assignment.bounds import shown
from assignment.errors import InvalidInput
from assignment.hosts import is_loopback
from dashboard.webhooks.stored import URL_MAX

DEFAULT_PORTS = {"https": 443, "http": 80}
ADDRESSES_MAX = 4  # of one name, tried in turn
NAT64 = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Target:
    """`path`: with its query."""

    is_encrypted: bool
    host: str
    port: int
    path: str


def target_of(url: str) -> Target:
    """Raises InvalidInput, that names what is wrong and never the path."""
    parts = _split(url)
    host = (parts.hostname or "").lower()
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise InvalidInput("the address is not of the form https://host/path")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("the address has a user name or a password in it")
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidInput(f"{shown(host)} is told over https:// only")
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    if not _is_allowed(host, port, DEFAULT_PORTS[parts.scheme]):
        raise InvalidInput(f"{shown(f'{host}:{port}')} is not in EVENKEEL_WEBHOOK_HOSTS")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", host, port, path)


def _split(url: str) -> SplitResult:
    """Also its port is one."""
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or len(url) > URL_MAX:
        raise InvalidInput(f"the address is not of 1 to {URL_MAX} printable ASCII characters")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (read to see whether it can be)
    except ValueError as error:
        raise InvalidInput(f"the address cannot be read: {error}") from error
    return parts


def _is_allowed(host: str, port: int, default: int) -> bool:
    """An entry without a port allows the port of the scheme alone."""
    known = {entry.lower() for entry in settings.WEBHOOK_HOSTS}
    named = f"[{host}]" if ":" in host else host
    return f"{named}:{port}" in known or (port == default and named in known)


def resolved(target: Target) -> list[str]:
    """Its addresses, when all of them may be told. Raises InvalidInput, OSError."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not may_be_told(address):
            raise InvalidInput(
                f"{shown(target.host)} is at {address}, which is not public: it takes"
                " EVENKEEL_WEBHOOK_NETWORKS"
            )
    return addresses[:ADDRESSES_MAX]


def may_be_told(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in settings.WEBHOOK_NETWORKS):
        return True
    return all(one.is_global and not one.is_multicast for one in (address, *_inside(address)))


def _inside(address: Address) -> list[Address]:
    """IPv4 addresses that an IPv6 one leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour]
    found += address.teredo or ()
    if address in NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
