"""The dashboard's figures against their aims (dashboard.md): what stands below its pages first.

Some half an hour; the last figure takes 8 GB of the temporary folder (TMPDIR) while it is measured.
"""

from typing import Any

from tests.bench import history, long_history, maps, ownership, pages, screen, ticks


def rows() -> list[dict[str, Any]]:
    measured = (ticks, history, maps, ownership, pages, screen, long_history)
    return [row for module in measured for row in module.figures()]
