"""Loads, constants and runs of load_check, as capacity has them."""

from typing import Any

from dashboard.evaluation.capacity import measuring, sizing, stored
from dashboard.evaluation.capacity.formulas import FORMULAS, Constants, Load, predicted, sampled

NOTHING = {figure: dict.fromkeys(of.terms, 0.0) for figure, of in FORMULAS.items()}
ROWS = (
    *("agent_redis_connections", "redis_connection_kib", "database_rows_per_second"),
    *(name for of in stored.OF_EVENTS.values() for name, _ in of.values()),
)


def load(members: int, groups: int, partitions: int) -> Load:
    return Load(
        members=members, groups=groups, with_members=min(members, groups), partitions=partitions,
        beat_s=3.0,
    )  # fmt: skip


def constants(**of: dict[str, float]) -> dict[str, dict[str, float]]:
    return {figure: {**terms, **of.get(figure, {})} for figure, terms in NOTHING.items()}


def run(**changes: Any) -> dict[str, Any]:
    """As load_check tells it: 10 s without a change after 20 s of joining."""

    def costs(at_s: float, cpu_s: float, **more: float) -> dict[str, Any]:
        parts = dict.fromkeys(sizing.PARTS, cpu_s)
        rest = {"redis_mib": 3.0, "redis_clients": 50, "rebalances": 0, "samples": 0}
        rest |= {"redis_commands": 0, "database_bytes": 0, "rows": 0}
        return {"began_s": at_s - 1, "at_s": at_s, "cpu_s": parts, "mib": parts, **rest, **more}

    moments = {
        "quiet": costs(0.0, 1.0),
        "steady": costs(20.0, 8.0),
        "end": costs(
            30.0, 9.0, redis_commands=500, database_bytes=9_000, rows=7, rebalances=3, samples=4
        ),
    }
    sizes = {
        "members": 6,
        "groups": 2,
        "partitions": 8,
        "moves": 4,
        "others_cores": 0.1,
    }
    went = {"join_steady_s": 20.0, "timeouts": 0, "errors": 0}
    return {**sizes, **went, "costs": moments, **changes}


def taking(of: Constants, size: measuring.Size, factor: float = 1.0) -> dict[str, Any]:
    """A run that takes so many times what is predicted of it."""
    members, groups, partitions = size
    one = run(members=members, groups=groups, partitions=partitions, moves=0)
    at = sampled(of, measuring.load_of(one))

    def value(figure: str, load: Load = at) -> float:
        return factor * predicted(of, figure, load)

    before, end = one["costs"]["steady"], one["costs"]["end"]
    end["cpu_s"] = {p: before["cpu_s"][p] + 10 * value(f"{p}_cores") for p in sizing.PARTS}
    end["mib"] = {part: value(f"{part}_mib") for part in ("web", "worker")}
    end |= {"redis_commands": 10 * value("redis_ops"), "redis_mib": value("redis_mib")}
    end |= {"samples": 10 * at.samples}
    happened, _ = measuring.changes(one)
    end["database_bytes"] = value("database_bytes", happened)
    end["rows"] = value("database_rows", happened)
    return one
