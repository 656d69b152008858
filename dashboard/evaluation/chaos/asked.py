"""What a chaos run is asked for. What cannot be done is refused with one sentence."""

import argparse
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from assignment import strategies
from assignment.errors import InvalidInput
from assignment.hosts import is_loopback
from assignment.types import GroupSettings
from dashboard.evaluation.figures import bound_ms

SCOPES = ("minor", "major", "random", "fixed")
SCOPED = (
    *("kill", "kill-agent", "kill-consumer", "suspend"),
    *("loss", "delay", "blackhole", "reset", "cut-redis", "cut-dashboard", "reply-lost"),
)
WHOLE = (
    *("one-way-cut", "web-kill", "worker-kill", "beat-kill", "dashboard-kill", "database-away"),
    *("redis-kill", "redis-wipe", "redis-stall", "redis-failover", "redis-lost-writes"),
    *("clock-back", "double-rebalance", "join-many", "leave-many", "flap", "swap", "one-to-many"),
    *("rolling-restart", "drain-one", "drain-half", "strategy-change", "coordination-switch"),
)
FAULTS = (*(f"{scope}-{fault}" for scope in SCOPES for fault in SCOPED), *WHOLE)
STATIC = "rolling-restart"
FOR_TWO = ("drain-one", "drain-half", "one-to-many")
COORDINATIONS = ("server", "client")
CONSUMERS = ("light", "spark")
AGENTS_MAX, PARTITIONS_MAX, SECONDS_MAX, SEED_MAX = 100, 1_000, 3_600, 2**31
FAST = {
    "lease_ms": 1_500,
    "renew_ms": 500,
    "session_timeout_ms": 1_200,
    "heartbeat_ms": 300,
    "grace_ms": 1_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`seconds`: how long the fault is left to last, where it does not end by itself."""

    faults: tuple[str, ...]
    agents: int = 3
    partitions: int = 12
    seconds: int = 10
    seed: int = 0
    coordination: str = "server"
    strategy: str = strategies.DEFAULT
    consumer: str = "light"
    victims: tuple[str, ...] = ()
    fast: bool = False
    stateful: bool = False  # also when no fault needs it

    def __post_init__(self) -> None:
        for name in self.faults:
            if name not in FAULTS:
                near = get_close_matches(name, FAULTS, 1)
                meant = f": {near[0]!r} perhaps" if near else ""
                raise InvalidInput(f"there is no fault {name!r}{meant}; chaos --help names them")
        for name, most in LIMITS.items():
            value = getattr(self, name)
            if not LEAST.get(name, 1) <= value <= most:
                raise InvalidInput(f"{name} {value} is not within {LEAST.get(name, 1)} and {most}")
        _known("coordination", self.coordination, COORDINATIONS)
        _known("strategy", self.strategy, strategies.NAMES)
        _known("consumer", self.consumer, CONSUMERS)
        if any(name.startswith("fixed-") for name in self.faults) and not self.victims:
            raise InvalidInput("a fault of scope fixed needs --victims, as light-1,light-3")
        if self.agents < 2 and (alone := [name for name in self.faults if name in FOR_TWO]):
            raise InvalidInput(f"{alone[0]} needs two agents at least: one has to stay")
        if unknown := sorted(set(self.victims) - set(self.names)):
            raise InvalidInput(
                f"there is no agent {unknown[0]!r}: they are {', '.join(self.names)}"
            )

    @property
    def kind(self) -> strategies.Kind:
        """Of its strategy."""
        return strategies.KINDS[self.strategy]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the agents that a run starts with."""
        return tuple(f"{self.consumer}-{number}" for number in range(1, self.agents + 1))

    @property
    def any_seed(self) -> Self:
        """What runs that differ by their seed alone have in common."""
        return replace(self, seed=0)

    @property
    def timings(self) -> GroupSettings:
        return GroupSettings(**self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the group. Nothing is trimmed: what is trimmed cannot be judged."""
        return {
            "stream": "chaos",
            "partitions": self.partitions,
            "strategy": self.strategy,
            "trimming": False,
            "stateful": self.stateful or any(f.startswith("drain-") for f in self.faults),
            **(FAST if self.fast else {}),
        }

    @property
    def is_static(self) -> bool:
        """Members have instance names, and nothing of them may move while they are restarted."""
        return self.faults == (STATIC,)

    @property
    def bound_ms(self) -> int:
        return bound_ms(self.timings, int(any(name in RESTARTING for name in self.faults)))

    @property
    def loses_writes(self) -> bool:
        return any(name in LOSING for name in self.faults)

    @property
    def forgets(self) -> bool:
        return any(name in FORGETTING for name in self.faults)

    def options(self) -> list[str]:
        """Those of `chaos` that run it again: one without a seed would draw another."""
        words = ["--fault", "+".join(self.faults)]
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "seed" or (f.name not in ELSEWHERE and value != f.default):
                words += [f"--{f.name}", str(value)]
        words += ["--victims", ",".join(self.victims)] if self.victims else []
        return [*words, *(["--fast"] if self.fast else [])]

    def command(self) -> str:
        return " ".join(["python3 manage.py chaos", *self.options()])

    def values(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From what `values` gave, read from JSON."""
        made: dict[str, Any] = {
            n: tuple(v) if isinstance(v, list) else v for n, v in values.items()
        }
        return cls(**made)


LIMITS = {
    "agents": AGENTS_MAX,
    "partitions": PARTITIONS_MAX,
    "seconds": SECONDS_MAX,
    "seed": SEED_MAX,
}
LEAST = {"seed": 0}
ELSEWHERE = ("faults", "victims", "fast", "stateful")  # are not told as name and value
# Redis comes back with other data than it had on its disk.
FORGETTING = ("redis-wipe", "redis-failover", "redis-lost-writes")
# One that is killed has answered what a slow disk had not taken yet.
LOSING = (*FORGETTING, "redis-kill")
RESTARTING = (*LOSING, "clock-back")


def _known(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InvalidInput(f"there is no {what} {value!r}: choose from {', '.join(known)}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of one run; kept as texts where `asked` tells better what is wrong."""
    known = {f.name: f.default for f in fields(Asked)}
    parser.add_argument("--fault", default="", help="NAME[+NAME...], at the same time")
    for name in LIMITS:
        default = None if name == "seed" else known[name]
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--coordination", default="server", help="server or client")
    parser.add_argument("--strategy", default=strategies.DEFAULT, help=", ".join(strategies.NAMES))
    parser.add_argument("--consumer", default="light", help="light or spark")
    parser.add_argument(
        "--victims", default="", help="agents by comma, of fixed-* and rolling-restart"
    )
    parser.add_argument("--fast", action="store_true", help="a lease of 1.5 s and what fits to it")


def asked(options: dict[str, Any]) -> Asked:
    """Raises InvalidInput."""
    faults = split(options["fault"], "+")
    if not faults:
        raise InvalidInput("no fault is named: give --fault NAME[+NAME...]")
    seed = secrets.randbelow(SEED_MAX) if options["seed"] is None else options["seed"]
    names = ("agents", "partitions", "seconds", "coordination", "strategy", "consumer", "fast")
    return Asked(
        faults=faults,
        seed=seed,
        victims=tuple(dict.fromkeys(split(options["victims"], ","))),
        **{name: options[name] for name in names},
    )


def split(text: str, by: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(by) if part.strip())


def check_loopback(addresses: Sequence[str]) -> None:
    """Nothing of somebody else is ever struck. Raises InvalidInput."""
    for address in addresses:
        if address.startswith(("unix:", "sqlite:")):
            continue
        try:
            parts = urlsplit(address)
        except ValueError as error:
            raise InvalidInput(f"an address of this environment is no URL: {error}") from error
        # PostgreSQL takes hosts as options too; a path is a socket of this machine
        named = ",".join([parts.hostname or "", *parse_qs(parts.query).get("host", [])])
        for host in [host for host in named.split(",") if host] or [""]:
            if not is_loopback(host) and not host.startswith("/"):
                told = f"chaos strikes only what it started, and {host!r} is not loopback"
                raise InvalidInput(told)
