"""A replica of state as heartbeats and stored reports have it: its form, and what it may hold."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from assignment.errors import InvalidInput
from assignment.types import ReplicaReport, Role

REPLICA_ROLES = (Role.STANDBY, Role.LEARNER)
REPLICA_RATE_MAX = 1e12  # events a second; what is above is no rate
_REPLICA_KINDS: dict[str, tuple[type, ...]] = {
    "role": (str,),
    "lag": (int,),
    "percent": (int, float),
    "rate": (int, float),
    "eta_ms": (int, type(None)),
    "ready": (bool,),
    "why": (str,),
}


def replica_values(report: ReplicaReport) -> dict[str, Any]:
    """A replica as heartbeats and stored reports have it."""
    return asdict(report) | {"role": report.role.value}


def parse_replica(values: Mapping[str, Any]) -> ReplicaReport:
    """Unknown names are left out. Raises InvalidInput that names what is wrong."""
    known = {name: value for name, value in values.items() if name in _REPLICA_KINDS}
    role = known.get("role")
    if role not in REPLICA_ROLES:
        raise InvalidInput(f"role {role!r} of a replica is neither standby nor learner")
    for name, value in known.items():
        allowed = _REPLICA_KINDS[name]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise InvalidInput(f"{name} {value!r} of a replica cannot be read")
    for name, high in (("percent", 100.0), ("rate", REPLICA_RATE_MAX)):
        if not 0 <= known.get(name, 0) <= high:
            raise InvalidInput(f"{name} {known[name]!r} of a replica is not within 0 and {high}")
    return ReplicaReport(**known | {"role": Role(role)})
