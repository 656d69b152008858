"""The dashboard's figures against their aims (dashboard.md): what stands below its pages first."""

from typing import Any

from tests.bench import history, maps, ownership, pages, screen


def rows() -> list[dict[str, Any]]:
    measured = (history, maps, ownership, pages, screen)
    return [row for module in measured for row in module.figures()]
