"""The web process as it is started, with real sockets: how it ends them, and how it ends itself."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from pytest_django.fixtures import Settings
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from dashboard.demo.embedded_redis import free_port
from dashboard.models import Group
from tests.dashboard.environments import own_environment

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="it is given the test's file"),
]


@dataclass(frozen=True, slots=True)
class Web:
    host: str  # and port
    process: "subprocess.Popen[bytes]"
    log: Path


@pytest.fixture
def web(
    group: Group, redis_url: str, group_name: str, settings: Settings, tmp_path: Path
) -> Iterator[Web]:
    own = own_environment(redis_url, group_name, tmp_path) | {"SECRET_KEY": settings.SECRET_KEY}
    host = f"127.0.0.1:{free_port()}"
    options = ("--no-proxy-headers", "--log-level", "warning", "--port", host.partition(":")[2])
    command = [sys.executable, "-m", "uvicorn", "dashboard.asgi:application", *options]
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | own, stderr=file)
    try:
        until = time.monotonic() + DEADLINE_S
        while not answers(host):
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield Web(host, process, log)
    finally:
        process.kill()
        process.wait()


def answers(host: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}/healthz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def watching(host: str, path: str, client: Client) -> ClientConnection:
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    origin: Any = f"http://{host}"
    return connect(
        f"ws://{host}/{path}", origin=origin, additional_headers={"Cookie": cookie}, proxy=None
    )


def test_open_sockets_end_with_their_login_and_with_the_process(web: Web, group: Group) -> None:
    ann, bob = Client(), Client()
    ann.force_login(User.objects.create(username="ann"))
    bob.force_login(User.objects.create(username="bob"))
    path = f"ws/group/{group.name}/"
    with pytest.raises(InvalidStatus, match="403"):
        watching(web.host, "ws/nothing/there", ann)
    with watching(web.host, path, ann) as hers, watching(web.host, path, bob) as his:
        assert "hello" in str(hers.recv(DEADLINE_S)) and "hello" in str(his.recv(DEADLINE_S))
        ann.post("/logout/")
        assert code_at_the_end(hers) == 4403
        assert his.recv(DEADLINE_S)
        web.process.send_signal(signal.SIGTERM)
        assert web.process.wait(DEADLINE_S) in (0, -signal.SIGTERM)
        assert code_at_the_end(his) == 1012
    assert "Traceback" not in web.log.read_text()


def code_at_the_end(socket: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as ended:
        while True:
            socket.recv(DEADLINE_S)
    assert ended.value.rcvd
    return ended.value.rcvd.code
