"""A Spark consumer's figures: throughput and latency, CPU of a small batch, cores of the demo."""

from typing import Any

from tests.bench import demo_cores, spark_batches, spark_rates


def rows() -> list[dict[str, Any]]:
    measured = (spark_rates, spark_batches, demo_cores)
    return [row for module in measured for row in module.figures()]
