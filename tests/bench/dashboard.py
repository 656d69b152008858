"""The dashboard's figures against their aims (dashboard.md): what stands below its pages first."""

from typing import Any

from tests.bench import history, maps, ownership


def rows() -> list[dict[str, Any]]:
    return [*history.figures(), *maps.figures(), *ownership.figures()]
