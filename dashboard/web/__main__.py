"""`python -m dashboard.web`: the web process. It is uvicorn, takes all of its options (--host,
--port, --ssl-certfile ...: see --help), and has bounds for strangers below ASGI.

Several of one machine may have one address: `--shared-port N` listens there too, beside a port of
its own, by which one of them can be asked whether it lives.
"""

import argparse
import inspect
import os
import resource
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import uvicorn
from django.core.exceptions import ImproperlyConfigured
from uvicorn.config import LOGGING_CONFIG

from dashboard.safeguards import check_address
from dashboard.web import PROTOCOLS

APPLICATION = "dashboard.asgi:application"
SOCKET_BYTES_MAX = 2**12  # browsers say nothing; the socket itself closes after 1,024
# Several heartbeats: whoever is late finds its connection as it was. Of strangers there are few
# (visitors.py), and none keeps another out: who has kept us waiting longest makes place.
KEEP_ALIVE_S = 15
OPTIONS = (
    *("--http", f"{PROTOCOLS}:HttpProtocol"),
    *("--ws", f"{PROTOCOLS}:SocketProtocol"),
    *("--loop", "dashboard.web.accepting:Loop"),
    *("--ws-max-size", str(SOCKET_BYTES_MAX)),
    *("--timeout-keep-alive", str(KEEP_ALIVE_S)),
    "--no-server-header",
)
LAST = ("--no-proxy-headers",)  # what a proxy says of clients is read in asgi.py, and there alone
LISTENS_AT = "127.0.0.1"  # unless --host says otherwise
BAD_INPUT = 3
SHARED_PORT = "--shared-port"
FILES_WANTED = 65_536  # an agent keeps a connection open; what a process may open is often 1,024


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    shared_port, of_uvicorn = _own_options(sys.argv[1:])
    arguments = [APPLICATION, *OPTIONS, *of_uvicorn, *LAST]
    try:
        given = asked(arguments)
        check_listening(given)
        if shared_port is not None:
            check_shared(given)
    except ImproperlyConfigured as error:
        print(f"evenkeel: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    allow_files()
    if shared_port is None:
        uvicorn.main(arguments, prog_name="dashboard.web")
    else:
        serve_shared(given, shared_port)


def _own_options(arguments: Sequence[str]) -> tuple[int | None, list[str]]:
    """The shared port, None without one, and what is left for uvicorn."""
    parser = argparse.ArgumentParser("dashboard.web", add_help=False, allow_abbrev=False)
    parser.add_argument(SHARED_PORT, type=int)
    found, rest = parser.parse_known_args(arguments)
    return found.shared_port, rest


def asked(arguments: Sequence[str]) -> Mapping[str, Any]:
    """uvicorn's options by name."""
    return uvicorn.main.make_context("dashboard.web", [*arguments], resilient_parsing=True).params


def check_listening(given: Mapping[str, Any]) -> None:
    """Raises ImproperlyConfigured, also for wrong settings. A socket file is of this machine, and
    one that was handed over is its opener's matter.
    """
    from dashboard import settings

    if not (given.get("uds") or given.get("fd") is not None):
        said = settings.DEVELOPMENT_SAID or not settings.DEVELOPMENT
        host, hosts = given.get("host") or LISTENS_AT, settings.ALLOWED_HOSTS
        check_address(host, key=settings.SECRET_KEY, hosts=hosts, said=said)


def check_shared(given: Mapping[str, Any]) -> None:
    """Raises ImproperlyConfigured: it is for processes that are started one by one."""
    others = ("uds", "fd", "workers", "reload")
    if named := [f"--{name}" for name in others if given.get(name) not in (None, False)]:
        raise ImproperlyConfigured(f"{SHARED_PORT} does not go with {', '.join(named)}")


def serve_shared(given: Mapping[str, Any], port: int) -> None:
    """At the port of its own and at this one, over whose listeners the kernel spreads connections.
    Only processes of one user can share a port; whichever ends takes no connections any more.
    """
    known = inspect.signature(uvicorn.Config).parameters
    options = {name: value for name, value in given.items() if name in known}
    options["headers"] = [header.split(":", 1) for header in given.get("headers") or ()]
    options["log_config"] = given.get("log_config") or LOGGING_CONFIG
    config = uvicorn.Config(**options)
    host = config.host or LISTENS_AT
    try:
        sockets = [_bound(host, config.port), _bound(host, port, shared=True)]
    except OSError as error:
        print(f"evenkeel: {host}, port {config.port} or {port}: {error.strerror}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    server = uvicorn.Server(config)
    server.run(sockets=sockets)
    if not server.started:
        sys.exit(BAD_INPUT)


def _bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """The server listens once the application is loaded: nobody is given to it before."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((host, port))
    return made


def allow_files() -> None:
    """As many open ones as the machine lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main()
