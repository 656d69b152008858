"""Reads an assignment case: members, partitions and what was owned, as the suites of Kafka and
RocketMQ have them (form: shared/cases/README.md). From JSON values; knows no files.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from assignment import strategies
from assignment.errors import InvalidInput
from assignment.strategies.given import StrategyInput
from assignment.strategies.parameters import (
    items,
    mapping,
    number,
    spans,
    text,
    text_or_none,
    whole,
)
from assignment.types import Member, Partition

PARTITIONS_MAX = 4_000_000  # of all topics; a case is answered with names, about 200 bytes each
STRATEGY_OF = {peer: n for n, kind in strategies.KINDS.items() for peer in (*kind.peers, n)}
# Kafka's client passes over a topic that its metadata does not have; its server refuses it.
_KAFKA_CLIENT = frozenset(("kafka-sticky", "kafka-coop", "kafka-range", "kafka-roundrobin"))
_IGNORED = "ignored"  # in the name or note of a case: unknown topics are
_NO_GENERATION = -1  # below every real one
_LIMITS = -(2**62), 2**62  # of fences and other numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`before`: existing partition -> who owned it, members that are gone or do not read it any
    more included; without those that two live members claim alike.
    """

    given: StrategyInput
    strategy: str
    parameters: Mapping[str, Any]
    before: Mapping[Partition, str]


class _Claim(NamedTuple):
    member: str
    partition: Partition
    fence: int


def read_case(said: Any, strategy: str | None = None) -> Case:
    """`strategy`: else the one of `applies_to`, else sticky. InvalidInput names what is wrong."""
    if not isinstance(said, dict):
        raise InvalidInput(f"a case is a JSON object, not {said!r:.80}")
    chosen = _strategy(said) if strategy is None else strategy
    strategies.known(chosen)
    topics = _topics(said)
    readers = _subscriptions(said, topics)
    claims = list(_claims(said))
    return Case(
        given=StrategyInput(members=_members(said, chosen, readers, claims), topics=topics),
        strategy=chosen,
        parameters=_parameters(said, chosen, topics),
        before=_before(claims, readers, topics),
    )


def _strategy(said: Mapping[str, Any]) -> str:
    names = _peers(said)
    known = [STRATEGY_OF[name] for name in names if name in STRATEGY_OF]
    if names and not known:
        raise InvalidInput(f"applies_to {names!r} names no strategy that is known")
    return known[0] if known else strategies.DEFAULT


def _peers(said: Mapping[str, Any]) -> list[str]:
    return [text("applies_to", name) for name in items("applies_to", said.get("applies_to") or [])]


# --- members and topics ---------------------------------------------------------------------------


def _topics(said: Mapping[str, Any]) -> dict[str, int]:
    topics = dict(_object("topics", said.get("topics")))
    StrategyInput(members=(), topics=topics)  # refuses counts that are none
    for topic in topics:
        text("topic", topic)
    if sum(topics.values()) > PARTITIONS_MAX:
        raise InvalidInput(f"{sum(topics.values())} partitions are more than {PARTITIONS_MAX}")
    return topics


def _subscriptions(said: Mapping[str, Any], topics: Mapping[str, int]) -> dict[str, frozenset[str]]:
    found = {}
    for member, names in _object("members", said.get("members")).items():
        text("member id", member)
        wanted = items(f"members.{member}", names)
        found[member] = frozenset(text(f"topic of {member!r}", topic) for topic in wanted)
    if _unknown_are_ignored(said, topics):
        return {member: names & topics.keys() for member, names in found.items()}
    for member, names in found.items():
        for name in sorted(names - topics.keys()):
            raise InvalidInput(f"member {member!r} subscribes to unknown topic {name!r}")
    return found


def _unknown_are_ignored(said: Mapping[str, Any], topics: Mapping[str, int]) -> bool:
    """Refused, unless the case says otherwise: in words, or because only Kafka's client is its
    witness. Where no topic is known at all there is nothing to assign, which is a result.
    """
    expected = said.get("expected")
    if isinstance(expected, dict) and "error" in expected:
        return False
    if any(_IGNORED in str(said.get(field, "")) for field in ("name", "note", "unknown_topics")):
        return True
    if peers := _peers(said):
        return _KAFKA_CLIENT.issuperset(peers)
    return not topics


def _members(
    said: Mapping[str, Any],
    strategy: str,
    readers: Mapping[str, frozenset[str]],
    claims: Iterable[_Claim],
) -> tuple[Member, ...]:
    metas = _object("member_meta", said.get("member_meta") or {})
    owned: dict[str, dict[Partition, int]] = {member: {} for member in readers}
    for member, partition, fence in claims:
        if member in owned:
            owned[member][partition] = fence
    return tuple(
        _member(member, topics, owned[member], _meta(metas, member), strategy)
        for member, topics in readers.items()
    )


def _member(
    member: str,
    topics: frozenset[str],
    owned: Mapping[Partition, int],
    meta: Mapping[str, Any],
    strategy: str,
) -> Member:
    """Racks are zones; without one `zone_nearby` takes what is before the first "-" of the id."""
    zone = text_or_none(f"rack of {member!r}", meta.get("rack", meta.get("zone")))
    if zone is None and strategy == "zone_nearby":
        zone = member.partition("-")[0]
    return Member(
        member_id=member,
        joined_at_ms=_whole(f"joined_at_ms of {member!r}", meta.get("joined_at_ms"), 0),
        instance_id=text_or_none(f"instance of {member!r}", meta.get("instance")),
        zone=zone or "",
        capacity=number(f"capacity of {member!r}", meta.get("capacity", 1.0), *_LIMITS),
        subscription=topics,
        owned=owned,
    )


# --- what was owned -------------------------------------------------------------------------------


def _claims(said: Mapping[str, Any]) -> Iterator[_Claim]:
    metas = _object("member_meta", said.get("member_meta") or {})
    for member, own in _object("previous", said.get("previous") or {}).items():
        generation = _meta(metas, member).get("generation")
        fence = _whole(f"generation of {member!r}", generation, _NO_GENERATION)
        pairs = items(f"previous.{member}", own)
        for partition in dict.fromkeys(_partition(member, pair) for pair in pairs):
            yield _Claim(member, partition, fence)


def _partition(member: str, pair: Any) -> Partition:
    match pair:
        case [str(topic), int(number)] if number >= 0 and not isinstance(number, bool):
            return Partition(topic, number)
    raise InvalidInput(f"previous of {member!r} has {pair!r:.80}, which is no [topic, partition]")


def _before(
    claims: Iterable[_Claim], readers: Mapping[str, frozenset[str]], topics: Mapping[str, int]
) -> dict[Partition, str]:
    """By rule 1 of `sticky`; where no live reader claims a partition, by the newest other claim."""
    kept: dict[Partition, tuple[int, str]] = {}
    lost: dict[Partition, tuple[int, str]] = {}
    tied: set[Partition] = set()
    for member, partition, fence in claims:
        if partition.number >= topics.get(partition.stream, 0):
            continue
        if partition.stream not in readers.get(member, ()):
            lost[partition] = max(lost.get(partition, (fence, member)), (fence, member))
            continue
        best, holder = kept.get(partition, (fence, member))
        if fence > best or holder == member:  # the first one, or a newer one
            tied.discard(partition)
            kept[partition] = (fence, member)
        elif fence == best:
            tied.add(partition)
    found = {p: member for p, (_, member) in (lost | kept).items()}
    return {p: member for p, member in found.items() if p not in tied}


# --- parameters -----------------------------------------------------------------------------------


def _parameters(
    said: Mapping[str, Any], strategy: str, topics: Mapping[str, int]
) -> dict[str, Any]:
    found = dict(_object("parameters", said.get("parameters") or {}))
    taken = strategies.KINDS[strategy].parameters.NAMES  # also beside them, as they stand
    found |= {name: said[name] for name in taken if name in said}
    if strategy == "zone" and "allowed_rooms" in said:
        found.setdefault("allowed_zones", said["allowed_rooms"])
    if strategy in ("zone", "zone_nearby") and "partition_zones" not in found:
        found |= _rooms(said, strategy, topics)
    return found


def _rooms(said: Mapping[str, Any], strategy: str, topics: Mapping[str, int]) -> dict[str, Any]:
    """partition_zones of RocketMQ's brokers, when the case has them."""
    zones: dict[str, list[Any]] = {}
    if "queue_brokers" in said:
        for key, broker in _object("queue_brokers", said["queue_brokers"]).items():
            room = _room(text(f"broker of {key}", broker), strategy)
            if room is not None:
                zones.setdefault(room, []).extend(_queues(key, topics))
    elif "queues_per_room" in said:
        size = _whole("queues_per_room", said["queues_per_room"], 0)
        if size < 1 and any(topics.values()):
            raise InvalidInput(f"queues_per_room {size} is below 1")
        for topic, count in topics.items():
            for start in range(0, count, size or 1):
                span = f"{topic}:{start}-{min(start + size, count) - 1}"
                zones.setdefault(f"IDC{1 + start // size}", []).append(span)
    else:
        return {}
    return {"partition_zones": zones}


def _room(broker: str, strategy: str) -> str | None:
    """What is before the "@"; None without one or with several. `zone_nearby` also knows "-"."""
    parts = broker.rstrip("@").split("@")
    if len(parts) == 2:
        return parts[0]
    room, dash, _ = broker.partition("-")
    return room if dash and strategy == "zone_nearby" else None


def _queues(key: str, topics: Mapping[str, int]) -> list[Any]:
    """`3` is queue 3 of every topic that has it, `topic:3` of that one."""
    (span,) = spans("queue_brokers", [key])
    if span.topic is not None:
        return [key]
    having = [topic for topic, count in topics.items() if count > span.last]
    return [f"{topic}:{key}" for topic in having or list(topics)[:1]]


# --- values ---------------------------------------------------------------------------------------


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        raise InvalidInput(f"{name} is missing")
    return mapping(name, value)


def _meta(metas: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    return _object(f"member_meta.{member}", metas.get(member) or {})


def _whole(name: str, value: Any, default: int) -> int:
    return default if value is None else whole(name, value, *_LIMITS)
