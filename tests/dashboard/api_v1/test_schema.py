"""The OpenAPI document, and a client that asks the running API whatever the document allows, and
more: every answer is one that is documented. EVENKEEL_API_EXAMPLES: how many requests of an
operation it makes up (3).
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.asgi import application
from dashboard.models import Group
from dashboard.web.protocols import HttpProtocol
from tests.dashboard.agents import make_group, until
from tests.dashboard.api_v1.program import token_of
from tests.dashboard.scenes import staffed

EXAMPLES = os.environ.get("EVENKEEL_API_EXAMPLES", "3")
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_schema_conformance", "response_headers_conformance", "ignored_auth"),
    *("unsupported_method", "negative_data_rejection"),
)
# Streams of up to 100,000 partitions, as many as the document allows, are another test's matter.
LEFT_OUT = ("create_group",)
DEADLINE_S = 240


@pytest.fixture
def address(transactional_db: None, settings: Settings) -> Iterator[str]:
    settings.API_RATE_PER_SECOND = 1_000_000
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(application, http=HttpProtocol, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_every_answer_is_documented(
    address: str, store: Any, group_name: str, tmp_path: Any
) -> None:
    group: Group = make_group(group_name)
    staffed(group, "a", "b")
    ann = User.objects.create(username="ann", is_superuser=True)
    (tmp_path / "schemathesis.toml").write_text(
        f'[parameters]\n"path.name" = "{group.name}"\n[phases.stateful]\nenabled = false\n'
    )
    words = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run"),
        *(f"{address}/api/v1/openapi.json", "--no-color", "--max-examples", EXAMPLES),
        *("--header", f"Authorization: Bearer {token_of(ann).text}"),
        *("--checks", ",".join(CHECKS), "--seed", "1", "--continue-on-failure"),
        *(word for name in LEFT_OUT for word in ("--exclude-operation-id", name)),
    ]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_the_document_says_who_may_and_how_errors_look(db: None) -> None:
    document = Client().get("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tell = f"{method} {path}"
            assert operation["security"] == [{"PersonToken": []}], tell
            assert operation["description"], tell
            errors = {s: r for s, r in operation["responses"].items() if s >= "400"}
            assert {"401", "403", "404", "422", "429", "503"} <= errors.keys(), tell
            assert ("409" in errors) == (method != "get"), tell
            for found in errors.values():
                assert list(found["content"]) == ["application/problem+json"], tell
