"""The command `bench spark`: each of its parts that starts Java has a process of its own."""

import json
from collections.abc import Mapping, Sequence

import pytest

from tests.bench import apart, demo_cores, spark

ROW = {"name": "batch_cpu_ms", "value": 180.0, "unit": "ms", "ratio": 1.4, "yardstick": "alone"}


def test_rows_are_those_of_a_process_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = []

    def told(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
        programs.append(arguments[1])
        return f"consumer ends\n{json.dumps([ROW])}\n"

    monkeypatch.setattr(apart, "told", told)
    monkeypatch.setattr(demo_cores, "figures", list)
    assert spark.rows() == [ROW, ROW]
    for program, name in zip(programs, ("spark_rates", "spark_batches"), strict=True):
        assert f"import {name} as" in program


def test_a_part_that_fails_is_a_row_with_the_reason() -> None:
    (row,) = apart.rows_of("one_agent")
    assert (row["name"], row["value"]) == ("one_agent", None)
    assert "has no attribute 'figures'" in row["error"]
