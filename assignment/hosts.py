"""Which hosts are this machine itself."""

import ipaddress


def is_loopback(host: str) -> bool:
    """An IPv6 address may stand in brackets."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
