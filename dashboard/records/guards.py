"""The database's own guard of the audit: triggers that let entries be added and nothing else.

They stop mistakes and whoever has SQL only through the application; who may change tables can take
them away, which /readyz tells, and what is done then breaks the chain. A migration that rebuilds a
table drops its triggers: they are taken away before such migrations and put back after them.
"""

from collections.abc import Mapping
from typing import Any

from django.apps import AppConfig
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import post_migrate, pre_migrate

from dashboard.records.stored import HEAD, AuditEntry, AuditHead

ENTRY, HEADS = AuditEntry._meta.db_table, AuditHead._meta.db_table
ONLY_ADDED = "audit entries are only added"
ONLY_FORWARD = "the head of the audit only goes forward"
IS_REMOVED = f"OLD.seq <= COALESCE((SELECT through FROM {HEADS} WHERE id = {HEAD}), 0)"
GOES_BACK = (
    "NEW.id <> OLD.id OR NEW.seq < OLD.seq OR NEW.through < OLD.through OR NEW.through > NEW.seq"
)


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
            f"EXISTS (SELECT 1 FROM {ENTRY} WHERE id = NEW.id OR seq = NEW.seq)",
            ONLY_ADDED,
        ),
        "evenkeel_audit_head_update": ("UPDATE", HEADS, GOES_BACK, ONLY_FORWARD),
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
    "evenkeel_audit_head_never": _body("", ONLY_FORWARD),
    "evenkeel_audit_head_forward": _body(
        f"IF NOT ({GOES_BACK}) THEN RETURN NEW; END IF;", ONLY_FORWARD
    ),
}
# name -> table, event, for each, function
POSTGRESQL: Mapping[str, tuple[str, str, str, str]] = {
    "evenkeel_audit_update": (ENTRY, "UPDATE", "ROW", "evenkeel_audit_never"),
    "evenkeel_audit_delete": (ENTRY, "DELETE", "ROW", "evenkeel_audit_removed"),
    "evenkeel_audit_truncate": (ENTRY, "TRUNCATE", "STATEMENT", "evenkeel_audit_never"),
    "evenkeel_audit_head_update": (HEADS, "UPDATE", "ROW", "evenkeel_audit_head_forward"),
    "evenkeel_audit_head_delete": (HEADS, "DELETE", "ROW", "evenkeel_audit_head_never"),
    "evenkeel_audit_head_truncate": (HEADS, "TRUNCATE", "STATEMENT", "evenkeel_audit_head_never"),
}
EVENTS = {"DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}  # as pg_trigger.tgtype has them; 2: before
EACH = {"ROW": 1, "STATEMENT": 0}
# A: also where session_replication_role says that triggers rest.
OF_POSTGRESQL = """
    SELECT tgname, c.relname, tgtype, p.proname, p.prosrc
    FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid JOIN pg_proc p ON p.oid = tgfoid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE tgenabled = 'A' AND tgqual IS NULL AND tgattr::text = '' AND n.nspname = current_schema()
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
        for name, body in FUNCTIONS.items():
            head = f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
            cursor.execute(f"{head} AS $${body}$$")
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
    if any(migration.app_label == sender.label for migration, _backwards in plan):
        lift(connections[using])


def _after(sender: AppConfig, using: str, **_: Any) -> None:
    connection = connections[using]
    tables = connection.introspection.table_names()
    if connection.vendor in ("sqlite", "postgresql") and {ENTRY, HEADS} <= set(tables):
        put(connection)
