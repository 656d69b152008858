"""The database's own guard of the audit: triggers that let entries be added behind the head, the
head go on to them, and what a checkpoint vouches for be removed; nothing else.

They stop mistakes and whoever has SQL only through the application. Who imitates what it does adds
an entry without the key, which breaks the chain; who may change tables can take them away, which
/readyz tells, and what is done then breaks it too. A migration that rebuilds a table drops its
triggers: they are taken away before such migrations and put back after them.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.apps import AppConfig
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import post_migrate, pre_migrate

from dashboard.records import audit
from dashboard.records.stored import CHECKPOINT, HEAD, AuditEntry, AuditHead

log = logging.getLogger(__name__)

ENTRY, HEADS = AuditEntry._meta.db_table, AuditHead._meta.db_table
ONLY_ADDED = "audit entries are only added"
ONLY_FORWARD = "the head of the audit only goes forward"
BEHIND = f"COALESCE((SELECT seq FROM {HEADS} WHERE id = {HEAD}), 0)"
IS_REMOVED = f"OLD.seq <= COALESCE((SELECT through FROM {HEADS} WHERE id = {HEAD}), 0)"
# The head goes on to an entry that is there, and `through` as chain.checkpoint does it: with a step
# of the head onto the entry that says so, in the text that stored.canonical_json makes.
IS_CHECKPOINT = f"""NEW.through > OLD.through AND NEW.through < NEW.seq AND NEW.seq > OLD.seq
    AND EXISTS (SELECT 1 FROM {ENTRY} WHERE seq = NEW.through AND mac = NEW.through_mac)
    AND EXISTS (
        SELECT 1 FROM {ENTRY} e WHERE e.seq = NEW.seq AND e.action = '{CHECKPOINT}'
        AND e."after" = '{{"entries":' || (NEW.through - OLD.through)
            || ',"mac":"' || NEW.through_mac || '","through":' || NEW.through || '}}'
    )"""
STRAYS = f"""(NEW.id <> OLD.id OR NEW.seq < OLD.seq
    OR (NEW.seq = OLD.seq AND NEW.mac <> OLD.mac)
    OR (NEW.seq > OLD.seq
        AND NOT EXISTS (SELECT 1 FROM {ENTRY} WHERE seq = NEW.seq AND mac = NEW.mac))
    OR ((NEW.through <> OLD.through OR NEW.through_mac <> OLD.through_mac)
        AND NOT ({IS_CHECKPOINT})))"""


def _sqlite(name: str, event: str, table: str, when: str, said: str) -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN {when}"
        f" BEGIN SELECT RAISE(ABORT, '{said}'); END"
    )


# INSERT too: REPLACE removes the row that was there without a word to the trigger of DELETE.
SQLITE: Mapping[str, str] = {
    name: _sqlite(name, *parts)
    for name, parts in {
        "evenkeel_audit_update": ("UPDATE", ENTRY, "1", ONLY_ADDED),
        "evenkeel_audit_delete": ("DELETE", ENTRY, f"NOT ({IS_REMOVED})", ONLY_ADDED),
        "evenkeel_audit_insert": (
            *("INSERT", ENTRY),
            f"NEW.seq <= {BEHIND} OR EXISTS (SELECT 1 FROM {ENTRY} WHERE id = NEW.id)",
            ONLY_ADDED,
        ),
        "evenkeel_audit_head_update": ("UPDATE", HEADS, STRAYS, ONLY_FORWARD),
        "evenkeel_audit_head_delete": ("DELETE", HEADS, "1", ONLY_FORWARD),
        "evenkeel_audit_head_insert": (
            *("INSERT", HEADS, f"EXISTS (SELECT 1 FROM {HEADS})"),
            ONLY_FORWARD,
        ),
    }.items()
}


def _body(unless: str, said: str) -> str:
    return f" BEGIN {unless} RAISE EXCEPTION '{said}' USING ERRCODE = 'restrict_violation'; END "


# name -> body
FUNCTIONS: Mapping[str, str] = {
    "evenkeel_audit_never": _body("", ONLY_ADDED),
    "evenkeel_audit_removed": _body(f"IF {IS_REMOVED} THEN RETURN OLD; END IF;", ONLY_ADDED),
    "evenkeel_audit_behind": _body(f"IF NEW.seq > {BEHIND} THEN RETURN NEW; END IF;", ONLY_ADDED),
    "evenkeel_audit_head_never": _body("", ONLY_FORWARD),
    "evenkeel_audit_head_forward": _body(
        f"IF NOT ({STRAYS}) THEN RETURN NEW; END IF;", ONLY_FORWARD
    ),
}
# name -> table, event, for each, function
POSTGRESQL: Mapping[str, tuple[str, str, str, str]] = {
    "evenkeel_audit_insert": (ENTRY, "INSERT", "ROW", "evenkeel_audit_behind"),
    "evenkeel_audit_update": (ENTRY, "UPDATE", "ROW", "evenkeel_audit_never"),
    "evenkeel_audit_delete": (ENTRY, "DELETE", "ROW", "evenkeel_audit_removed"),
    "evenkeel_audit_truncate": (ENTRY, "TRUNCATE", "STATEMENT", "evenkeel_audit_never"),
    "evenkeel_audit_head_update": (HEADS, "UPDATE", "ROW", "evenkeel_audit_head_forward"),
    "evenkeel_audit_head_delete": (HEADS, "DELETE", "ROW", "evenkeel_audit_head_never"),
    "evenkeel_audit_head_truncate": (HEADS, "TRUNCATE", "STATEMENT", "evenkeel_audit_head_never"),
}
# As pg_trigger.tgtype has them; 2: before.
EVENTS = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}
EACH = {"ROW": 1, "STATEMENT": 0}
# A temporary table of the same name comes first in a search path that does not name pg_temp last.
PATH = "SELECT 'pg_catalog, ' || quote_ident(current_schema()) || ', pg_temp'"
# A: also where session_replication_role says that triggers rest.
OF_POSTGRESQL = f"""
    SELECT t.tgname, c.relname, t.tgtype, p.proname, p.prosrc
    FROM pg_catalog.pg_trigger t
    JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE t.tgenabled = 'A' AND t.tgqual IS NULL AND t.tgattr::text = ''
    AND n.nspname = current_schema() AND p.proconfig = ARRAY['search_path=' || ({PATH})]
"""


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Names of triggers that are not there, or not as they should be. Raises DatabaseError."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            found = dict(cursor.fetchall())
            return sorted(name for name, sql in SQLITE.items() if found.get(name) != sql)
        if connection.vendor == "postgresql":
            cursor.execute(OF_POSTGRESQL)
            rows = {name: tuple(rest) for name, *rest in cursor.fetchall()}
            return sorted(name for name in POSTGRESQL if rows.get(name) != _as_stored(name))
    return ["all: only SQLite and PostgreSQL can guard the audit"]


def _as_stored(name: str) -> tuple[str, int, str, str]:
    table, event, each, function = POSTGRESQL[name]
    return table, EACH[each] + 2 + EVENTS[event], function, FUNCTIONS[function]


def put(connection: BaseDatabaseWrapper) -> None:
    """Makes those that are missing."""
    if not missing(connection):
        return
    lift(connection)
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for sql in SQLITE.values():
                cursor.execute(sql)
            return
        cursor.execute(PATH)
        (path,) = cursor.fetchone()
        for name, body in FUNCTIONS.items():
            head = f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
            cursor.execute(f"{head} SET search_path = {path} AS $${body}$$")
        for name, (table, event, each, function) in POSTGRESQL.items():
            cursor.execute(
                f"CREATE TRIGGER {name} BEFORE {event} ON {table}"
                f" FOR EACH {each} EXECUTE FUNCTION {function}()"
            )
            cursor.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")


def lift(connection: BaseDatabaseWrapper) -> None:
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in SQLITE:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        elif connection.vendor == "postgresql":
            for name, (table, *_) in POSTGRESQL.items():
                cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")


def follow_migrations(sender: AppConfig) -> None:
    pre_migrate.connect(_before, sender=sender, dispatch_uid="audit guards lifted")
    post_migrate.connect(_after, sender=sender, dispatch_uid="audit guards put back")


def _before(sender: AppConfig, using: str, plan: Any = (), **_: Any) -> None:
    if _touches(sender, plan):
        lift(connections[using])


def _touches(sender: AppConfig, plan: Any) -> bool:
    return any(migration.app_label == sender.label for migration, _backwards in plan)


def _after(sender: AppConfig, using: str, plan: Any = None, **_: Any) -> None:
    """`plan`: None after what is no migration, as `flush` is."""
    connection = connections[using]
    tables = connection.introspection.table_names()
    if connection.vendor not in ("sqlite", "postgresql") or not {ENTRY, HEADS} <= set(tables):
        return
    gone = missing(connection)
    put(connection)
    if gone and plan is not None and not _touches(sender, plan):
        _tell(gone)


def _tell(gone: list[str]) -> None:
    """Nobody had a reason to take them away."""
    log.error("the audit was not guarded, and is again: %s were missing", ", ".join(gone))
    audit.record(
        replace(audit.by_whoever_acts(), reason="triggers were missing or changed"),
        "guard audit",
        object="audit",
        before={"missing": gone},
    )
