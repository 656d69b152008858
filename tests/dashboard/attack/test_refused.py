"""What attack_check asks without a right: found where a system does not refuse it."""

import socket
import threading

import pytest

from dashboard.evaluation.attack import refused, run
from tests.dashboard.attack.systems import (
    LOGIN,
    answering,
    let_in,
    rejected,
    sockets_that,
    target_at,
)

REFUSALS = [
    (refused.tokens, 401, None, 200),
    (refused.strangers, 302, LOGIN, 200),
    (refused.readers, 401, None, 200),
    (refused.forgeries, 403, None, 302),
    (refused.hosts, 400, None, 200),
]


@pytest.mark.parametrize(("check", "right", "headers", "wrong"), REFUSALS)
def test_who_has_no_right_is_refused_or_it_is_found(
    check: run.Check, right: int, headers: dict[str, str] | None, wrong: int
) -> None:
    with answering(right, headers) as target:
        assert check(target).problems == []
        assert target.requests > 3
    with answering(wrong) as target:
        assert f"was answered {wrong}" in check(target).problems[0]


@pytest.mark.parametrize(("check", "right", "headers", "wrong"), REFUSALS[:4])
def test_refusal_that_changes_something_is_found(
    check: run.Check, right: int, headers: dict[str, str] | None, wrong: int
) -> None:
    with answering(right, headers, changes=True) as target:
        assert check(target).problems[0].endswith("changed key a")


def test_sockets_are_closed_to_strangers_and_other_sites_or_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sockets_that(rejected, 0) as target:
        assert refused.origins(target).problems == []
        assert refused.sockets(target).problems == []
    with sockets_that(let_in, 4403) as target:
        assert refused.sockets(target).problems == []
    for code, said, within_s in ((0, "no close", 0.01), (1000, "code 1000", 1.0)):
        monkeypatch.setattr(refused, "CLOSED_WITHIN_S", within_s)
        with sockets_that(let_in, code) as target:
            assert said in refused.sockets(target).problems[0]
            assert len(refused.origins(target).problems) >= 5


@pytest.mark.parametrize(
    ("said", "problems"), [(b"-NOAUTH Authentication required.\r\n", 0), (b"+PONG\r\n", 5)]
)
def test_redis_asks_for_a_password_or_it_is_found(said: bytes, problems: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_all() -> None:
            for _ in range(5):
                connection, _ = server.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(said)

        threading.Thread(target=serve_all, daemon=True).start()
        assert len(refused.redis(target_at(server.getsockname()[1])).problems) == problems
