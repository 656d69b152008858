"""Scripts of owners (locks, batches, commits, snapshots), written anew in Python."""

import json
from collections.abc import Sequence
from typing import Any

from tests.fakes.group import Group
from tests.fakes.server import b, id_of, t

FENCE_STEP = 2**32

Texts = Sequence[str]


def pairs(values: Sequence[Any], first: int) -> list[tuple[Any, Any]]:
    return list(zip(values[first::2], values[first + 1 :: 2], strict=True))


# --- locks ----------------------------------------------------------------------------------------


def acquire(g: Group, args: Texts) -> list[Any]:
    member, ttl_ms, mode_epoch, incarnation, *partitions = args
    if not g.is_member(member):
        return ["fenced"]
    if g.meta("mode_epoch", "") != mode_epoch:
        return ["mode"]
    if g.meta("incarnation", "none") != incarnation or g.meta("run_id", "") != g.server.run_id:
        return ["no_incarnation"]
    allowed = None
    if g.meta("coordination") == "server":
        row = g.hash("target").get(member)
        allowed = set(json.loads(row)["active"]) if row else set()
    until_ms = g.now + int(ttl_ms)
    return ["ok", *(_acquire_one(g, member, p, until_ms, allowed) for p in partitions)]


def _acquire_one(
    g: Group, member: str, partition: str, until_ms: int, allowed: set[str] | None
) -> list[str]:
    if allowed is not None and partition not in allowed:
        return [partition, "not_target"]
    holder = g.holder(partition)
    if holder is None:
        return _grant_new(g, member, partition, until_ms)
    if holder[0] != member:
        grant = g.grant(partition)
        assert grant
        return [partition, "held", holder[0], str(grant[2] - g.now)]
    fence = holder[1]
    g.set_lock(partition, member, fence, until_ms)
    owned = g.hash(f"owned:{member}")
    if not t(owned.get(partition, b"")).startswith(f"{fence} "):
        owned[partition] = b(f"{fence} restoring")
    return [partition, "granted", str(fence), t(owned[partition]).split(" ")[1]]


def _grant_new(g: Group, member: str, partition: str, until_ms: int) -> list[str]:
    g.expire_if_lost(partition)
    fence = max(g.last_fence(partition), int(g.meta("incarnation")) * FENCE_STEP) + 1
    g.set_lock(partition, member, fence, until_ms)
    g.hash(f"owned:{member}")[partition] = b(f"{fence} restoring")
    g.hash("since")[partition] = b(f"{fence} {g.now}")
    g.record("acquired", partition, member, fence, g.now)
    return [partition, "granted", str(fence), "restoring"]


def renew(g: Group, args: Texts) -> list[Any]:
    member, ttl_ms = args[:2]
    if not g.is_member(member):
        return ["fenced"]
    g.beats[member] = g.now
    held = []
    for partition, fence in pairs(args, 2):
        mine = g.holder(partition) == (member, int(fence))
        if mine:
            g.set_lock(partition, member, int(fence), g.now + int(ttl_ms))
        held.append(int(mine))
    return ["ok", g.meta("incarnation"), g.meta("target_epoch"), g.meta("mode_epoch"), *held]


def release(g: Group, args: Texts) -> list[int]:
    member = args[0]
    answers = []
    for partition, fence in pairs(args, 1):
        mine = g.holder(partition) == (member, int(fence))
        if mine:
            g.unlock(partition)
            g.end_grant(partition, "released", g.now)
        answers.append(int(mine))
    if any(answers):
        g.hint("released", member)
    return answers


def sweep(g: Group, args: Texts) -> int:
    ended = sum([g.expire_if_lost(p) for p in list(g.hash("grants"))])
    if ended:
        g.hint("expired")
    return ended


# --- batches --------------------------------------------------------------------------------------


def set_state(g: Group, args: Texts) -> list[int]:
    owned = g.hash(f"owned:{args[0]}")
    answers = []
    for i in range(1, len(args), 4):
        partition, fence, expected, new = args[i : i + 4]
        same = owned.get(partition) == b(f"{fence} {expected}")
        if same:
            owned[partition] = b(f"{fence} {new}")
        answers.append(int(same))
    return answers


def next_batch(g: Group, args: Texts) -> list[Any]:
    (member,) = args
    if not g.is_member(member):
        return ["fenced"]
    owned = g.hash(f"owned:{member}")
    answers: list[Any] = ["ok"]
    revoked = False
    for partition, value in owned.items():
        fence, state = t(value).split(" ")
        if state == "revoking":
            owned[partition] = b(f"{fence} revoked")
            revoked = True
        elif state == "running" and g.holder(partition) == (member, int(fence)):
            offset = t(g.hash("offsets").get(partition, b"0-0"))
            total = t(g.hash("applied").get(partition, b"0 0")).split(" ")[0]
            answers.append([partition, fence, offset, total])
    if revoked:
        g.hint("revoked", member)
    return answers


def progress(g: Group, args: Texts) -> int:
    if not g.is_member(args[0]):
        return 0
    g.hash(f"progress:{args[0]}").update({n: b(v) for n, v in pairs(args, 1)})
    return 1


def commit(g: Group, args: Texts, raw: Sequence[str | bytes]) -> list[str]:
    partition, member, fence, low, high, events, base, write = args[:8]
    if g.last_fence(partition) != int(fence):
        return _refuse_commit(g, partition, member, int(fence))
    committed = t(g.hash("offsets").get(partition, b"0-0"))
    if low == high:
        return ["moved", committed]
    changelog = f"{g.prefix}changelog:{partition}"
    if committed != low:
        if committed != high:
            return ["moved", committed]
        last = g.server.xrevrange(changelog, "+", "-", "COUNT", "1")
        return ["already", committed, t(last[0][0]) if write == "1" and last else ""]
    if partition in g.hash("offsets"):
        base = t(g.hash("applied").get(partition, b(base))).split(" ")[0]
    total = int(base) + int(events)
    entry: str | bytes = ""
    if write == "1":
        fields = {"from": low, "to": high, "fence": fence, "total": total, "events": events}
        entry = g.server.xadd(changelog, fields | {"changes": raw[8], "ids": raw[9]})
    g.hash("offsets")[partition] = b(high)
    g.hash("applied")[partition] = b(f"{total} {g.now}")
    for i in range(10, len(raw), 4):
        letter = dict(zip(("reason", "entry", "index", "raw"), raw[i : i + 4], strict=True))
        g.server.xadd(f"{g.prefix}dead:{partition}", letter | {"fence": fence})
    return ["done", high, t(entry)]


def _refuse_commit(g: Group, partition: str, member: str, fence: int) -> list[str]:
    g.set_meta("refused_commits", int(g.meta("refused_commits")) + 1)
    refused = g.hash("refused")
    field = f"{partition} {fence}"
    if field not in refused:
        g.record("fenced", partition, member, fence, g.now)
    refused[field] = b(int(refused.get(field, b"0")) + 1)
    return ["fenced", str(g.last_fence(partition))]


def snapshot(g: Group, args: Texts) -> str:
    partition, fence, url, offset, changelog_id, total, trim = args
    if g.last_fence(partition) != int(fence):
        return "fenced"
    before = json.loads(g.hash("snapshots").get(partition, b"[]"))[:1]
    committed = t(g.hash("offsets").get(partition, b"0-0"))
    if id_of(offset) > id_of(committed):
        return "old"
    if before and id_of(offset) <= id_of(before[0]["offset"]):
        return "old"
    record = {"url": url, "offset": offset, "changelog_id": changelog_id}
    record |= {"total": total, "fence": fence}
    g.hash("snapshots")[partition] = b(json.dumps([record, *before]))
    if before and trim == "1":
        entries = g.server.streams.get(f"{g.prefix}changelog:{partition}", [])
        entries[:] = [e for e in entries if e[0] >= id_of(before[0]["changelog_id"])]
    return "done"
