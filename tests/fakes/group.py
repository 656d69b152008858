"""The common part of the scripts (assignment/lua/_common.lua), written anew in Python."""

import json
from typing import Any

from tests.fakes.server import FakeRedis, b, t


class Group:
    """The common part of the scripts: one group's data during one call."""

    def __init__(self, server: FakeRedis, meta_key: str) -> None:
        self.server = server
        self.prefix = meta_key.removesuffix("meta")
        self.now = server.now_ms

    def hash(self, name: str) -> dict[str, bytes]:
        return self.server.hash(self.prefix + name)

    @property
    def beats(self) -> dict[str, int]:
        return self.server.scores.setdefault(self.prefix + "beats", {})

    def meta(self, name: str, default: str = "0") -> str:
        return t(self.hash("meta").get(name, b(default)))

    def set_meta(self, name: str, value: str | int) -> None:
        self.hash("meta")[name] = b(value)

    def is_member(self, member: str) -> bool:
        return member in self.hash("members")

    def row(self, member: str) -> dict[str, Any]:
        return dict(json.loads(self.hash("members")[member]))

    def set_row(self, member: str, row: dict[str, Any]) -> None:
        self.hash("members")[member] = b(json.dumps(row))

    def grant(self, partition: str) -> tuple[int, str, int, str] | None:
        value = self.hash("grants").get(partition)
        if value is None:
            return None
        fence, member, until_ms, ended = t(value).split(" ")
        return int(fence), member, int(until_ms), ended

    def last_fence(self, partition: str) -> int:
        grant = self.grant(partition)
        return grant[0] if grant else 0

    def holder(self, partition: str) -> tuple[str, int] | None:
        value = self.server.lock(f"{self.prefix}lock:{partition}")
        if value is None:
            return None
        member, _, fence = t(value).rpartition("/")
        return member, int(fence)

    def set_lock(self, partition: str, member: str, fence: int, until_ms: int) -> None:
        self.server.locks[f"{self.prefix}lock:{partition}"] = (b(f"{member}/{fence}"), until_ms)
        self.hash("grants")[partition] = b(f"{fence} {member} {until_ms} -")

    def unlock(self, partition: str) -> None:
        self.server.locks.pop(f"{self.prefix}lock:{partition}", None)

    def end_grant(self, partition: str, kind: str, at_ms: int) -> None:
        grant = self.grant(partition)
        assert grant
        fence, member = grant[:2]
        self.hash("grants")[partition] = b(f"{fence} {member} {at_ms} {kind}")
        owned = self.hash(f"owned:{member}")
        if t(owned.get(partition, b"")).startswith(f"{fence} "):
            del owned[partition]
        self.record(kind, partition, member, fence, at_ms)

    def expire_if_lost(self, partition: str) -> bool:
        """Ends a grant whose lock ran out before anybody ended it."""
        grant = self.grant(partition)
        if not grant or grant[3] != "-" or self.holder(partition):
            return False
        self.end_grant(partition, "expired", min(grant[2], self.now))
        return True

    def record(self, kind: str, partition: str, member: str, fence: int, at_ms: int) -> None:
        self.set_meta("event_seq", int(self.meta("event_seq")) + 1)
        fields = {"seq": self.meta("event_seq"), "type": kind, "partition": partition}
        self.server.xadd(
            self.prefix + "events", fields | {"member": member, "fence": fence, "at_ms": at_ms}
        )

    def hint(self, reason: str, member: str = "") -> None:
        epoch = self.meta("group_epoch")
        fields = {"reason": reason, "epoch": epoch, "member": member}
        self.server.xadd(self.prefix + "control", fields)

    def changed(self, reason: str, member: str = "") -> None:
        self.set_meta("group_epoch", int(self.meta("group_epoch")) + 1)
        self.hint(reason, member)

    def remove(self, member: str, kind: str, reason: str) -> None:
        for partition in list(self.hash(f"owned:{member}")):
            grant = self.grant(partition)
            if not grant or grant[1] != member or self.expire_if_lost(partition):
                continue
            if self.holder(partition) == (member, grant[0]):
                self.unlock(partition)
                self.end_grant(partition, kind, self.now)
        self.hash(f"owned:{member}").clear()
        self.hash(f"progress:{member}").clear()
        for name in ("members", "reports", "asked", "target"):
            self.hash(name).pop(member, None)
        self.beats.pop(member, None)
        self.changed(reason, member)
