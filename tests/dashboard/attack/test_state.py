"""What Redis and the database hold is compared before and after a request."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.evaluation.attack.state import Witness, changed
from dashboard.live.connection import client_of


def test_what_redis_and_the_database_hold_is_compared(
    own_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    database = sqlite3.connect(tmp_path / "db.sqlite3")
    database.executescript(
        """
        PRAGMA journal_mode=WAL;
        CREATE TABLE dashboard_group (name TEXT);
        CREATE TABLE dashboard_agenttoken (name TEXT, last_used_at TEXT);
        CREATE TABLE dashboard_auditentry (action TEXT);
        CREATE TABLE axes_accessattempt (username TEXT);
        INSERT INTO dashboard_agenttoken VALUES ('a', 'now');
        """
    )
    redis = client_of(own_redis.url)
    witness = Witness(own_redis.url, tmp_path / "db.sqlite3")

    def change(act: Callable[[], object]) -> str:
        before = witness.look()
        act()
        database.commit()
        return changed(before, witness.look())

    sql = database.execute
    assert change(lambda: None) == ""
    assert change(lambda: redis.hset("ek:{g}:meta", "a", 1)) == "key ek:{g}:meta"
    assert change(lambda: redis.hset("ek:{g}:meta", "a", 2)) == "key ek:{g}:meta"
    assert change(lambda: redis.hset("ek:{g}:meta", "joins", "1 2")) == ""
    assert change(lambda: redis.delete("ek:{g}:meta")) == "key ek:{g}:meta"
    assert change(lambda: redis.set("ek:{g}:rate:1:5", 1)) == ""
    assert change(lambda: redis.set("ek:readyz", 1)) == ""
    assert (
        change(lambda: sql("INSERT INTO dashboard_group VALUES ('g')")) == "table dashboard_group"
    )
    assert change(lambda: sql("UPDATE dashboard_group SET name = 'h'")) == "table dashboard_group"
    token = "table dashboard_agenttoken"
    assert change(lambda: sql("UPDATE dashboard_agenttoken SET name = 'b'")) == token
    assert change(lambda: sql("UPDATE dashboard_agenttoken SET last_used_at = 'later'")) == ""
    assert change(lambda: sql("INSERT INTO dashboard_auditentry VALUES ('x')")) == ""
    assert change(lambda: sql("INSERT INTO axes_accessattempt VALUES ('x')")) == ""
    witness.close()
    database.close()
