"""Parameters of strategies as people type and read them: JSON, and what each strategy takes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assignment.errors import InvalidInput
from assignment.setting import PARAMETERS_MAX
from dashboard import strict_json

NONE = "takes no parameters"


@dataclass(frozen=True, slots=True)
class Help:
    """What a strategy does, what it takes, and a text that may be typed as it stands."""

    rule: str
    takes: str = NONE
    example: str = ""


HELP: Mapping[str, Help] = {
    "averagely": Help("Blocks of neighbouring partitions, members by name."),
    "circle": Help("Partitions dealt in turn, members by name."),
    "config": Help(
        "A fixed map. While it does not fit the members, nothing moves.",
        "needs config_map: member to partitions; each partition once",
        '{"config_map": {"m1": ["0-5"], "m2": ["6-11"]}}',
    ),
    "consistent_hash": Help(
        "A ring of hashes: who comes or goes moves only its own. Not even.",
        "virtual_nodes: points of each member, 10 when left out",
        '{"virtual_nodes": 100}',
    ),
    "join_order": Help("Blocks of neighbouring partitions, members in the order they joined."),
    "range": Help("As averagely; members with an instance name come first and keep their place."),
    "round_robin": Help("Dealt in turn; members with an instance name come first."),
    "sticky": Help("Even, with the fewest moves. The default."),
    "weighted_sticky": Help(
        "Even by what partitions weigh and members can carry, then few moves.",
        'weights: partitions to numbers, a list, or "measured" (events so far);'
        " default_weight; moves_max: per round",
        '{"weights": {"0-2": 50, "7": 10}, "moves_max": 20}',
    ),
    "zone": Help(
        "Only partitions of the allowed zones are given out; the others have no owner.",
        "needs allowed_zones and partition_zones: zone to partitions",
        '{"allowed_zones": ["east"], "partition_zones": {"east": ["0-5"], "west": ["6-11"]}}',
    ),
    "zone_nearby": Help(
        "Each zone's partitions go to its own members; without such, to all.",
        "needs partition_zones; inner: strategy within a zone, averagely when left out;"
        " inner_parameters",
        '{"partition_zones": {"east": ["0-5"], "west": ["6-11"]}, "inner": "sticky"}',
    ),
}


def parse(text: str) -> dict[str, Any]:
    """Empty text is no parameters. InvalidInput says what is wrong, in a sentence."""
    if not text.strip():
        return {}
    if len(text) > PARAMETERS_MAX:
        raise InvalidInput(f"parameters have {len(text)} characters, above {PARAMETERS_MAX}")
    found = strict_json.read("what was typed", text)
    if not isinstance(found, dict):
        raise InvalidInput("parameters are not a JSON object, like {} or the examples below")
    return found


def shown(parameters: Mapping[str, Any]) -> str:
    return json.dumps(parameters, ensure_ascii=False) if parameters else ""
