"""What an agent sends to other machines: encrypted, to whom its authorities vouch for."""

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from agent import addresses
from agent.config import parse
from agent.dashboard_session.requests import DashboardAway, Dashboards
from agent.producer.__main__ import main as producer
from agent.scale_down import main as scale_down
from agent.store.door import RedisDoor, StoreUnavailable
from assignment.wire import Join, Reply, Status
from tests.fakes import authority

GOOD = ["--group", "g", "--token", "t", "--", "true"]
JOIN = Join(member="a-1", secret="s" * 32, host="h", version="1")


class Dashboard(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = msgspec.json.encode(Reply(status=Status.OK))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


class Forward(socketserver.BaseRequestHandler):
    """What a client says after its handshake goes to the Redis behind."""

    behind = ("", 0)

    def handle(self) -> None:
        with socket.create_connection(self.behind) as behind:
            back = threading.Thread(target=copy, args=(behind, self.request), daemon=True)
            back.start()
            copy(self.request, behind)


def copy(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while said := source.recv(65_536):
            to.sendall(said)
        to.shutdown(socket.SHUT_RDWR)


class QuietServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that trusts nobody hangs up in the handshake."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return authority.made_in(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def trusted(files: tuple[Path, Path]) -> str:
    return str(files[0])


@pytest.fixture
def context(files: tuple[Path, Path]) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(files[1])
    return made


@contextlib.contextmanager
def encrypted(server: socketserver.BaseServer, context: ssl.SSLContext) -> Iterator[int]:
    """Its port, behind TLS under the name localhost."""
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_dashboard_is_believed_by_the_authorities_of_the_file_only(
    trusted: str, context: ssl.SSLContext
) -> None:
    with encrypted(ThreadingHTTPServer(("127.0.0.1", 0), Dashboard), context) as port:
        urls = (f"https://localhost:{port}",)
        assert Dashboards(urls, "g", lambda: "t", trusted).ask(JOIN).status is Status.OK
        with pytest.raises(DashboardAway, match="certificate verify failed"):
            Dashboards(urls, "g", lambda: "t").ask(JOIN)


def test_so_is_a_redis(redis_url: str, trusted: str, context: ssl.SSLContext) -> None:
    behind = urlsplit(redis_url)
    handler = type("Handler", (Forward,), {"behind": (behind.hostname, behind.port)})
    with encrypted(QuietServer(("127.0.0.1", 0), handler), context) as port:
        url = f"rediss://:{behind.password}@localhost:{port}/0"
        door = RedisDoor(addresses.redis_url(url, insecure=False, ca=trusted))
        assert door.ask("PING") == b"PONG"
        door.close()
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            RedisDoor(url).ask("PING")


def test_the_file_of_authorities_goes_to_the_consumer_in_the_address(trusted: str) -> None:
    given = ["--redis-url", "rediss://h:1/0?db=2", "--dashboard", "https://h", *GOOD]
    config = parse(["--ca-file", trusted, *given], {})
    assert config.ca_file == trusted
    assert config.redis_url.startswith("rediss://h:1/0?db=2&ssl_ca_certs=%2F")
    assert parse(given, {}).redis_url == "rediss://h:1/0?db=2"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_this_machine_needs_no_encryption(host: str) -> None:
    urls = ["--redis-url", f"redis://{host}:1/0", "--dashboard", f"http://{host}:1"]
    assert parse([*urls, *GOOD], {}).dashboards == (f"http://{host}:1",)


@pytest.mark.parametrize("insecure", [["--insecure"], []])
def test_who_says_insecure_gets_it(insecure: list[str]) -> None:
    urls = ["--redis-url", "redis://h:1/0", "--dashboard", "http://h:1"]
    environ = {} if insecure else {"EVENKEEL_INSECURE": "1"}
    assert parse([*insecure, *urls, *GOOD], environ).redis_url == "redis://h:1/0"


def test_the_other_commands_refuse_too(capsys: pytest.CaptureFixture[str]) -> None:
    there = ["--redis-url", "redis://10.0.0.1:6379/0"]
    assert producer(["--stream", "s", "--partitions", "1", *there]) == 2
    assert scale_down(["--group", "g", "--percent", "50", *there]) == 2
    told = capsys.readouterr().err
    assert told.count("--redis-url 'redis://10.0.0.1' is another machine") == 2
