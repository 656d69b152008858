"""`python -m dashboard.web`: the web process. It is uvicorn, takes all of its options (--host,
--port, --workers, --ssl-certfile ...: see --help), and has bounds for strangers below ASGI.
"""

import os
import resource
import sys
from collections.abc import Sequence

import uvicorn
from django.core.exceptions import ImproperlyConfigured

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
    *("--ws-max-size", str(SOCKET_BYTES_MAX)),
    *("--timeout-keep-alive", str(KEEP_ALIVE_S)),
    "--no-server-header",
)
LAST = ("--no-proxy-headers",)  # what a proxy says of clients is read in asgi.py, and there alone
LISTENS_AT = "127.0.0.1"  # unless --host says otherwise
BAD_INPUT = 3
FILES_WANTED = 65_536  # an agent keeps a connection open; what a process may open is often 1,024


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    arguments = [APPLICATION, *OPTIONS, *sys.argv[1:], *LAST]
    try:
        check_listening(arguments)
    except ImproperlyConfigured as error:
        print(f"evenkeel: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    allow_files()
    uvicorn.main(arguments, prog_name="dashboard.web")


def check_listening(arguments: Sequence[str]) -> None:
    """Raises ImproperlyConfigured, also for wrong settings. A socket file is of this machine, and
    one that was handed over is its opener's matter.
    """
    from dashboard import settings

    given = uvicorn.main.make_context("dashboard.web", [*arguments], resilient_parsing=True).params
    if not (given.get("uds") or given.get("fd") is not None):
        said = settings.DEVELOPMENT_SAID or not settings.DEVELOPMENT
        host, hosts = given.get("host") or LISTENS_AT, settings.ALLOWED_HOSTS
        check_address(host, key=settings.SECRET_KEY, hosts=hosts, said=said)


def allow_files() -> None:
    """As many open ones as the machine lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main()
