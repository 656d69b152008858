from typing import Any

import pytest

from dashboard.evaluation.capacity import measuring, stored
from dashboard.evaluation.capacity.formulas import OF_RUNS
from tests.dashboard.capacity.runs import ROWS, taking


@pytest.fixture
def content() -> dict[str, Any]:
    """As --measure makes it of runs that take what these constants say."""
    made = {
        figure: {term: 1e-3 if term == "one" else 1e-5 for term in of.terms}
        for figure, of in OF_RUNS.items()
    }
    runs = [taking(made, size) for size in measuring.MEASURED_SIZES]
    return stored.made(runs, dict.fromkeys(ROWS, 2.0))
