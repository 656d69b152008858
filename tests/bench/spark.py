"""A Spark consumer's figures: throughput and latency, CPU of a small batch, cores of the demo."""

from typing import Any

from tests.bench import apart, demo_cores


def rows() -> list[dict[str, Any]]:
    apart_of = ("spark_rates", "spark_batches")
    return [row for module in apart_of for row in apart.rows_of(module)] + demo_cores.figures()
