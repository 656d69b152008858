"""What this process has counted since it began, for /metrics (api/metrics.py): plain whole numbers,
written by its event loop where they arise, read by whoever is asked. Knows no group of its own: who
counts names one that there is, and those that are gone are dropped when the counts are read.
"""

from collections.abc import Collection
from typing import Final

NO_GROUP: Final = ""  # of whoever has not shown a valid token
MANY_CHANGES, SLOW_BROWSER = "many_changes", "slow_browser"  # why a browser fetches a snapshot

Name = tuple[str, str]  # of a group; what of it is counted


class Counts:
    def __init__(self) -> None:
        self.heartbeats: dict[Name, int] = {}  # by how they were answered
        self.sockets: dict[str, int] = {}  # open now
        self.frames: dict[str, int] = {}  # given to browsers
        self.resyncs: dict[Name, int] = {}  # by why
        self.differences: dict[str, int] = {}  # rows of locks that their log did not tell

    def heartbeat(self, group: str, result: str) -> None:
        name = group, result
        self.heartbeats[name] = self.heartbeats.get(name, 0) + 1

    def opened(self, group: str, sockets: int) -> None:
        self.sockets[group] = sockets

    def told(self, group: str, browsers: int) -> None:
        self.frames[group] = self.frames.get(group, 0) + browsers

    def resynced(self, group: str, reason: str, browsers: int) -> None:
        name = group, reason
        self.resyncs[name] = self.resyncs.get(name, 0) + browsers

    def differed(self, group: str, rows: int) -> None:
        """From any thread, but from one at a time for a group."""
        self.differences[group] = self.differences.get(group, 0) + rows

    def keep(self, groups: Collection[str]) -> None:
        """Drops what was counted of any other group. From any thread."""
        for named in (self.heartbeats, self.resyncs):
            for name in [name for name in tuple(named) if name[0] not in groups]:
                if name[0] != NO_GROUP:
                    named.pop(name, None)
        for of_group in (self.sockets, self.frames, self.differences):
            for group in [group for group in tuple(of_group) if group not in groups]:
                of_group.pop(group, None)


counts = Counts()
