"""What must not change by a request that is refused: all that Redis and the database hold, but the
audit, login attempts, and the times and turns of beats and ticks.

Read directly, by nothing of the system itself.
"""

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from dashboard.live.connection import client_of

LEFT_OUT_KEYS = re.compile(
    rb".*(:rate(:.*)?|:readyz|:late_groups|:(beat|worker|tick)_ms|:queued|:running)"
)
META, LEFT_OUT_FIELDS = b":meta", (b"joins",)  # of a group; how many asked to join this second
LEFT_OUT_TABLES = ("axes_", "dashboard_audit", "sqlite_")
LEFT_OUT_COLUMNS = {"dashboard_agenttoken": "last_used_at"}
NAMED_MAX = 5
BUSY_S = 20.0

Held = Mapping[str, bytes]


class Witness:
    """Looks at one Redis and one SQLite file. What nobody wrote to is not read again."""

    def __init__(self, redis_url: str, database: Path) -> None:
        self._redis: Any = client_of(redis_url)
        self._sqlite = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=BUSY_S)
        self._seen: dict[str, tuple[Any, Held]] = {}

    def look(self) -> Held:
        """Name of what is held -> a digest of it."""
        return {**self._of("redis", self._writes(), self._keys), **self._of_database()}

    def _of(self, what: str, version: Any, read: Any) -> Held:
        before, held = self._seen.get(what, (None, {}))
        if before != version:
            held = read()
            self._seen[what] = version, held
        return held

    def _writes(self) -> int:
        return int(self._redis.info("persistence")["rdb_changes_since_last_save"])

    def _keys(self) -> Held:
        names = [n for n in self._redis.scan_iter(count=1_000) if not LEFT_OUT_KEYS.fullmatch(n)]
        pipe = self._redis.pipeline(transaction=False)
        for name in names:
            pipe.dump(name)
            pipe.hgetall(name if name.endswith(META) else b"")
        found = pipe.execute(raise_on_error=False)
        return {
            f"key {name.decode(errors='replace')}": sha256(_content(*values)).digest()
            for name, values in zip(names, zip(found[::2], found[1::2], strict=True), strict=True)
        }

    def _of_database(self) -> Held:
        version = self._sqlite.execute("PRAGMA data_version").fetchone()
        return self._of("database", version, self._tables)

    def _tables(self) -> Held:
        named = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        tables = [name for (name,) in self._sqlite.execute(named)]
        wanted = [name for name in tables if not name.startswith(LEFT_OUT_TABLES)]
        return {f"table {name}": self._rows(name) for name in wanted}

    def _rows(self, table: str) -> bytes:
        with closing(self._sqlite.execute(f'SELECT * FROM "{table}"')) as rows:
            left_out = LEFT_OUT_COLUMNS.get(table)
            kept = [n for n, column in enumerate(rows.description) if column[0] != left_out]
            texts = sorted(repr([row[n] for n in kept]) for row in rows)
        return sha256("\n".join(texts).encode("utf-8", "surrogatepass")).digest()

    def close(self) -> None:
        self._redis.close()
        self._sqlite.close()


def _content(dumped: bytes | None, fields: Any) -> bytes:
    """`fields`: of a hash that is such a one."""
    if isinstance(fields, dict) and fields:
        kept = {name: value for name, value in fields.items() if name not in LEFT_OUT_FIELDS}
        return repr(sorted(kept.items())).encode()
    return dumped or b""


def changed(before: Held, after: Held) -> str:
    """What differs, in words; "" when nothing does."""
    names = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
