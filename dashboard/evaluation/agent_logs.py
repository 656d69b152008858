"""What agents wrote of taking partitions over, from their logs in JSON: the time of each step.

Redis keeps when a partition was acquired, not when it began to run; its agent says both.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dashboard.evaluation.figures import Takeover


def takeovers(logs: Iterable[Path]) -> list[Takeover]:
    """Of all agents, in the order in which they ran."""
    found = [one for log in logs for one in takeovers_of(entries(log.read_text().splitlines()))]
    return sorted(found, key=lambda one: one.running_ms)


def entries(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The agent's own lines; its consumer writes to the same file in other forms."""
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and {"event", "member", "timestamp"} <= entry.keys():
            yield entry


def takeovers_of(said: Iterable[Mapping[str, Any]]) -> Iterator[Takeover]:
    """Of one log. A replica that caught up counts for the acquire that follows, once."""
    learned: set[tuple[str, str]] = set()
    acquired: dict[tuple[str, str, int], tuple[float, bool]] = {}
    for entry in said:
        member, partition = entry["member"], entry.get("partition", "")
        match entry["event"]:
            case "replica caught up":
                learned.add((member, partition))
            case "acquired":
                was_learned = (member, partition) in learned
                learned.discard((member, partition))
                acquired[member, partition, entry["fence"]] = (at_ms(entry), was_learned)
            case "running":
                began = acquired.pop((member, partition, entry["fence"]), None)
                if began is not None:
                    yield Takeover(
                        member=member,
                        partition=partition,
                        fence=entry["fence"],
                        acquired_ms=began[0],
                        running_ms=at_ms(entry),
                        learned=began[1],
                    )


def at_ms(entry: Mapping[str, Any]) -> float:
    """structlog writes UTC in ISO 8601, to the microsecond."""
    return datetime.fromisoformat(entry["timestamp"]).timestamp() * 1_000
