"""Scripts of members and of the coordinator, written anew in Python."""

import json
from collections.abc import Sequence
from typing import Any

from tests.fakes.group import Group
from tests.fakes.owners import pairs
from tests.fakes.server import b, flat, t

TICK_AWAY_MS = 3_000

Texts = Sequence[str]


# --- members --------------------------------------------------------------------------------------


def join(g: Group, args: Texts) -> list[str]:
    member, secret, row = args
    if "settings" not in g.hash("meta"):
        return ["no_group"]
    if g.is_member(member) and g.row(member)["secret"] != secret:
        return ["in_use"]
    new = {"secret": secret, "joined_at_ms": g.now, "able": False}
    if g.is_member(member) and "drain" in g.row(member):
        new["drain"] = g.row(member)["drain"]
    g.set_row(member, json.loads(row) | new)
    g.beats[member] = g.now
    g.hash("reports").pop(member, None)
    g.hash("asked")[member] = b(g.now)
    g.changed("join", member)
    return ["ok", g.meta("group_epoch")]


def leave(g: Group, args: Texts) -> str:
    member, secret = args
    if not g.is_member(member) or g.row(member)["secret"] != secret:
        return "fenced"
    g.remove(member, "released", "leave")
    return "ok"


def evict(g: Group, args: Texts) -> str:
    member, judged_ms, reason = args
    beat = g.beats.get(member)
    if beat is None:
        return "gone"
    if beat > int(judged_ms):
        return "newer"
    g.remove(member, "expired", reason)
    return "ok"


def report(g: Group, args: Texts) -> list[str]:
    member, secret, number, sequence, kind, payload = args[:6]
    if not g.is_member(member) or g.row(member)["secret"] != secret:
        return ["fenced"]
    g.beats[member] = g.now
    parts = g.hash("reports").get(member, b"-1 -1 0 0 ").split(b" ", 4)
    if int(parts[1]) >= int(sequence):
        return ["late"]
    wants = "0"
    complete, changes = payload, "{}"
    if kind == "complete":
        g.hash("asked").pop(member, None)
    elif int(parts[0]) == int(number):
        complete, changes = t(parts[4][: int(parts[3])]), payload
    else:
        wants = "1"
        g.hash("asked").setdefault(member, b(g.now))
    if wants == "0":
        head = f"{number} {sequence} {g.now} {len(complete.encode())} "
        g.hash("reports")[member] = b(head + complete + changes)
    told = {"able": args[6] == "1", "leaving": args[7] == "1", "ready": args[10]}
    rebalance_due = _take_row(g, member, told)
    target = ""
    if (g.meta("incarnation", ""), g.meta("target_epoch", "")) != (args[8], args[9]):
        target = t(g.hash("target").get(member, b""))
    names = ("incarnation", "mode_epoch", "group_epoch", "target_epoch", "settings_epoch")
    drain = g.row(member).get("drain", "")
    return ["ok", *(g.meta(name) for name in names), wants, target, str(int(rebalance_due)), drain]


def _take_row(g: Group, member: str, told: dict[str, Any]) -> bool:
    """Whether a plan depends on what changed."""
    before = {"leaving": False, "ready": ""} | g.row(member)
    reason = ""
    if set(told["ready"].split()) - set(before["ready"].split()):
        reason = "ready"
    if (before["able"], before["leaving"]) != (told["able"], told["leaving"]):
        reason = "leaving" if told["leaving"] else "able" if told["able"] else "unable"
    row = before | told
    if told["able"] and not before["able"]:
        row["able_at_ms"] = g.now
    g.set_row(member, row)
    if reason:
        g.changed(reason, member)
    return bool(reason)


def set_drain(g: Group, args: Texts) -> list[str]:
    drain, *members = args
    changed = []
    for member in members:
        if g.is_member(member) and g.row(member).get("drain", "") != drain:
            g.set_row(member, g.row(member) | {"drain": drain})
            changed.append(member)
    if changed and not drain:
        for member, text in g.hash("target").items():
            row = json.loads(text) | {"learning": []}
            g.hash("target")[member] = b(json.dumps(row, separators=(",", ":")))
    if changed:
        g.set_meta("coordinator_epoch", int(g.meta("coordinator_epoch")) + 1)
        g.changed({"leaving": "scale-down", "forced": "forced", "": "cancelled"}[drain])
    return [g.meta("group_epoch"), *changed]


# --- the coordinator ------------------------------------------------------------------------------


def configure(g: Group, args: Texts) -> str:
    settings, rebalance_due, reason = args
    first = {"coordination": "server", "mode_epoch": "1"}
    epochs = ("group_epoch", "target_epoch", "coordinator_epoch", "settings_epoch")
    for name, value in (first | dict.fromkeys(epochs, "0")).items():
        g.hash("meta").setdefault(name, b(value))
    if g.meta("settings", "") != settings:
        g.set_meta("settings", settings)
        g.set_meta("settings_epoch", int(g.meta("settings_epoch")) + 1)
    if rebalance_due == "1":
        g.changed(reason)
    else:
        g.hint(reason)
    return g.meta("group_epoch")


def request_rebalance(g: Group, args: Texts) -> str:
    g.changed(*args)
    return g.meta("group_epoch")


def resume(g: Group, args: Texts) -> str:
    epoch, seq = map(int, args)
    if "settings" in g.hash("meta"):
        return g.meta("group_epoch")
    for name, least in (("group_epoch", epoch), ("target_epoch", epoch), ("event_seq", seq)):
        if int(g.meta(name)) < least:
            g.set_meta(name, least)
    return g.meta("group_epoch")


def set_incarnation(g: Group, args: Texts) -> list[str]:
    incarnation, run_id = args
    another_run = run_id not in ("", g.server.run_id)
    if another_run or int(incarnation) <= int(g.meta("incarnation")):
        return ["stale", g.meta("incarnation")]
    g.set_meta("incarnation", incarnation)
    g.set_meta("run_id", g.server.run_id)
    g.hint("incarnation")
    return ["done", incarnation]


def set_target(g: Group, args: Texts) -> list[str]:
    coordinator_epoch, mode_epoch, epoch = args[:3]
    if g.meta("coordinator_epoch", "") != coordinator_epoch:
        return ["stale", "another coordinator runs"]
    if g.meta("mode_epoch", "") != mode_epoch:
        return ["stale", "the mode changed"]
    if (g.meta("target_run"), g.meta("target_epoch")) == (coordinator_epoch, epoch):
        return ["done", epoch]
    if int(epoch) <= int(g.meta("target_epoch")):
        return ["stale", "nothing changed"]
    if int(epoch) > int(g.meta("group_epoch")):
        return ["stale", "the group was made anew"]
    rows = dict(pairs(args, 3))
    for member in g.hash("members"):
        _forget_ready(g, member, rows.get(member, ""))
    nothing = {"target_epoch": int(epoch), "active": [], "standby": [], "learning": []}
    target = g.hash("target")
    target.clear()
    for member in g.hash("members"):
        target[member] = b(rows.get(member) or json.dumps(nothing, separators=(",", ":")))
    g.set_meta("target_epoch", epoch)
    g.set_meta("target_run", coordinator_epoch)
    g.set_meta("target_at_ms", g.now)
    g.hint("target")
    return ["done", epoch]


def _forget_ready(g: Group, member: str, row: str) -> None:
    """A learner that is placed now says ready anew."""
    old = t(g.hash("target").get(member, b""))
    placed, before = (set(json.loads(r)["learning"]) if r else set() for r in (row, old))
    ready = g.row(member).get("ready", "").split()
    kept = [p for p in ready if p in before or p not in placed]
    if kept != ready:
        g.set_row(member, g.row(member) | {"ready": " ".join(kept)})


def restore(g: Group, args: Texts) -> list[Any]:
    if "incarnation" in g.hash("meta") and g.meta("run_id") == g.server.run_id:
        return ["late"]
    count = 0
    for partition, record in pairs(args, 0):
        if partition not in g.hash("offsets"):
            values = json.loads(record)
            g.hash("offsets")[partition] = b(values["offset"])
            g.hash("applied")[partition] = b(f"{values['total']} {g.now}")
            g.hash("snapshots")[partition] = b(f"[{record}]")
            count += 1
    return ["done", count]


def read_group(g: Group, args: Texts) -> list[Any]:
    purpose, session_timeout_ms = args
    if purpose == "rebalance":
        g.set_meta("coordinator_epoch", int(g.meta("coordinator_epoch")) + 1)
    elif purpose == "tick":
        away = g.now - int(g.meta("tick_ms")) > TICK_AWAY_MS
        if away or g.meta("run_id", "") != g.server.run_id:
            g.set_meta("quiet_until_ms", g.now + int(session_timeout_ms))
        g.set_meta("tick_ms", g.now)
    beats = sorted(g.beats.items(), key=lambda beat: (beat[1], beat[0]))
    locks: list[bytes] = []
    for partition in g.hash("grants"):
        if holder := g.holder(partition):
            locks += [b(partition), b(f"{holder[0]}/{holder[1]}")]
    return [
        str(g.now),
        g.server.run_id,
        *(flat(g.hash(name).items()) for name in ("meta", "members")),
        flat((member, b(beat)) for member, beat in beats),
        *(flat(g.hash(name).items()) for name in ("reports", "asked", "target", "grants")),
        locks,
        *(flat(g.hash(name).items()) for name in ("offsets", "applied", "snapshots")),
    ]
