"""The OpenAPI document is one, and has a verb for each command that speaks of a running system."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

COMMANDS = Path(settings.ROOT, "dashboard", "management", "commands")
DOCUMENT = Path(settings.ROOT, "docs", "api.md")
# What a command imports that asks or changes what runs: groups, their audit, who asks.
RUNNING = re.compile(
    r"dashboard\.(actions|live|records|api|coordinator|models)\b"
    r"|dashboard\.management\.answers\.(asking|by_command|group_named)$"
)
VERB = re.compile(r"`(GET|POST|PATCH|PUT|DELETE) ([^ `?]+)(?:\?[^`]*)?`")


@pytest.fixture
def document(db: None) -> dict[str, Any]:
    found: dict[str, Any] = Client().get("/api/v1/openapi.json").json()
    return found


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def of_running_systems() -> set[str]:
    files = COMMANDS.glob("[a-z]*.py")
    return {path.stem for path in files if any(RUNNING.match(name) for name in imported(path))}


def table() -> dict[str, list[tuple[str, str]]]:
    """Of docs/api.md: command -> its verbs."""
    _, rows = DOCUMENT.read_text().split("| `manage.py` | API |\n|---|---|\n")
    found = {}
    for row in rows.partition("\n\n")[0].splitlines():
        _, command, verbs, _ = row.split("|")
        found[command.split("`")[1]] = VERB.findall(verbs)
    return found


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    found = OpenAPIV31SpecValidator(document).iter_errors()
    assert [f"{'/'.join(map(str, e.path))}: {e.message}" for e in found] == []


def test_each_command_that_speaks_of_a_running_system_has_a_verb(
    document: dict[str, Any],
) -> None:
    verbs = table()
    assert {"owner", "scale_down", "repair"} <= of_running_systems(), "the test finds none any more"
    assert of_running_systems() == verbs.keys()
    for command, asked in verbs.items():
        assert asked, command
        for method, path in asked:
            assert method.lower() in document["paths"].get(f"/api/v1{path}", {}), (command, path)
