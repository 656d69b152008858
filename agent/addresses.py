"""Addresses that agents and producers are given on their command line, and how safe the way there
is: a token, a password and events travel to other machines encrypted, unless --insecure is given.
"""

import argparse
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

from assignment.errors import InvalidInput
from assignment.hosts import is_loopback
from assignment.servers import is_cluster, node_url, nodes_of

DASHBOARDS_MAX = 16
NO, YES = ("", "0"), ("1",)
# Options of a Redis URL that weaken what rediss:// promises, and the values that do not.
PROMISES = {"ssl_cert_reqs": {"required"}, "ssl_check_hostname": {"true", "yes", "1"}}


def add_options(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """--ca-file and --insecure."""
    parser.add_argument(
        "--ca-file",
        default=environ.get("EVENKEEL_CA_FILE") or "",
        metavar="X",
        help="certificates (PEM) of authorities to trust too [EVENKEEL_CA_FILE]",
    )
    parser.add_argument(
        "--insecure",
        action="store_const",
        const="1",
        default=environ.get("EVENKEEL_INSECURE") or "",
        help="also http:// and redis:// to other machines, which anybody on the way can read"
        " [EVENKEEL_INSECURE=1]",
    )


def redis_url_of(given: argparse.Namespace) -> str:
    """Of a command with --redis-url and the options above. Raises InvalidInput."""
    insecure, ca = is_insecure(given.insecure), ca_file(given.ca_file)
    return redis_url(given.redis_url, insecure=insecure, ca=ca)


def is_insecure(text: str) -> bool:
    """Whether --insecure is given. Raises InvalidInput."""
    if text not in (*NO, *YES):
        raise InvalidInput(f"EVENKEEL_INSECURE {text!r} is neither 0 nor 1")
    return text in YES


def ca_file(path: str) -> str:
    """Absolute, or "" for none. Raises InvalidInput for what holds no certificate."""
    if not path:
        return ""
    made = str(Path(path).absolute())
    trusting(made)
    return made


def trusting(path: str) -> ssl.SSLContext:
    """What the system trusts, and the authorities of that file too. Raises InvalidInput."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise InvalidInput(f"--ca-file {path} holds no certificate in PEM form") from error
    except OSError as error:
        raise InvalidInput(f"--ca-file {path} cannot be read: {error.strerror}") from error
    return context


def dashboards(text: str, *, insecure: bool) -> tuple[str, ...]:
    """Of a list by commas. Raises InvalidInput."""
    urls = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    if not 1 <= len(urls) <= DASHBOARDS_MAX:
        raise InvalidInput(f"--dashboard {text!r} does not name 1 to {DASHBOARDS_MAX} addresses")
    for url in urls:
        parts = _read("--dashboard", url, ("http", "https"))
        _demand_safe("--dashboard", parts, parts.scheme == "https" or insecure, "https")
    return urls


def redis_url(url: str, *, insecure: bool, ca: str = "") -> str:
    """With the file of authorities to trust, as the client reads it from a URL: so a consumer and
    its tasks have it too. Of a Redis Cluster each node is as safe. Raises InvalidInput.
    """
    if is_cluster(url):
        for node in nodes_of(url):
            redis_url(node_url(url, node), insecure=insecure)
        return _with_ca(url, ca)
    if url.startswith("unix://") and len(url) > len("unix://"):
        return url
    parts = _read("--redis-url", url, ("redis", "rediss"))
    _demand_safe("--redis-url", parts, _keeps_promises(parts) or insecure, "rediss")
    return _with_ca(url, ca)


def _with_ca(url: str, ca: str) -> str:
    parts = urlsplit(url)
    if not ca or not parts.scheme.startswith("rediss") or "ssl_ca_certs" in parse_qs(parts.query):
        return url
    query = "&".join(filter(None, (parts.query, urlencode({"ssl_ca_certs": ca}))))
    return parts._replace(query=query).geturl()


def _keeps_promises(parts: SplitResult) -> bool:
    given = parse_qs(parts.query)
    told = {name: {value.lower() for value in given.get(name, ())} for name in PROMISES}
    return parts.scheme == "rediss" and all(told[name] <= PROMISES[name] for name in told)


def _demand_safe(flag: str, parts: SplitResult, is_safe: bool, scheme: str) -> None:
    if is_safe or is_loopback(parts.hostname or ""):
        return
    raise InvalidInput(
        f"{flag} {_shown(parts)!r} is another machine and the way there is not protected: give"
        f" {scheme}:// with certificates that are checked, or --insecure (EVENKEEL_INSECURE=1)"
        " in a network that you trust"
    )


def _read(flag: str, url: str, schemes: Sequence[str]) -> SplitResult:
    """The password of a URL never reaches the message."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"{flag}: the address cannot be read: {error}") from error
    if parts.scheme not in schemes or not host:
        raise InvalidInput(f"{flag} {_shown(parts)!r} is not of the form {schemes[0]}://host:port")
    return parts


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.hostname or ''}"
