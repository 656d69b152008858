"""/healthz: the process answers. /readyz: so does all that it needs; if not, why."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from assignment.servers import OLDEST
from dashboard.actions.roles import Action, Rights
from dashboard.live import health as live_health
from dashboard.live import rights as live_rights
from dashboard.live.attention import TICK_AGE_MAX_MS
from dashboard.live.connection import StoreUnavailable, reaching_redis
from dashboard.live.deadline import left_s
from dashboard.live.health import Sign, is_almost_full
from dashboard.records import chain, guards

ROUND_TRIP_TIMEOUT_S = 2.0
Check = Callable[[list[str], dict[str, Any]], dict[str, Any]]  # given warnings and facts so far

log = logging.getLogger(__name__)


class NotReady(Exception):
    """The text says why, in a sentence that names what to do."""


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    report = look()
    return JsonResponse(report, status=200 if report["ready"] else 503)


def look(rights: Rights | None = None) -> dict[str, Any]:
    """{"ready", "why": [...], "warnings": [...], "checks": {name: facts or null}}. Of groups it
    names those that such a one may see; None, a stranger: neither groups nor addresses of replicas.
    """
    warnings: list[str] = []
    why: list[str] = []
    named: dict[str, Check] = {
        "database": _database,
        "audit": _audit,
        "redis": partial(_redis, rights),
        "channel_layer": _channel_layer,
        "celery": _celery,
    }
    checks: dict[str, Any] = dict.fromkeys(named)
    for name, check in named.items():
        try:
            checks[name] = check(warnings, checks)
        except NotReady as error:
            why.append(str(error))
        except Exception as error:  # the top: whatever fails is the answer
            log.exception("check of %s failed", name)
            why.append(f"the check of {name} failed: {type(error).__name__}: {error}")
    return {"ready": not why, "why": why, "warnings": warnings, "checks": checks}


def _database(warnings: list[str], checks: dict[str, Any]) -> dict[str, Any]:
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        used = _connections()
    except DatabaseError as error:
        raise NotReady(f"the database does not answer: {error}") from error
    if missing:
        raise NotReady(f"{len(missing)} migrations are missing: run manage.py migrate")
    if used and is_almost_full(used["connections"], used["connections_max"]):
        warnings.append(
            f"PostgreSQL has {used['connections']} of {used['connections_max']} connections: raise"
            " its max_connections, or run fewer processes; whoever finds none fails"
        )
    return {"vendor": connection.vendor, **used}


def _connections() -> dict[str, int]:
    """Of PostgreSQL, in all of its databases, and how many it leaves to those who may not more than
    we. Raises DatabaseError.
    """
    if connection.vendor != "postgresql":
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(numbackends), current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int FROM pg_stat_database"
        )
        used, most = cursor.fetchone()
    return {"connections": int(used), "connections_max": most}


def _audit(warnings: list[str], checks: dict[str, Any]) -> dict[str, Any]:
    if checks["database"] is None:
        raise NotReady("whether the audit is guarded is not known without the database")
    if why := audit_trouble():
        raise NotReady(why)
    return {"guarded": True, "anchored": True}


def audit_trouble() -> str:
    """Why the audit cannot be believed, by what a few rows tell; "" when it can."""
    if gone := guards.missing(connection):
        return (
            f"the audit is not guarded: {len(gone)} triggers are missing or were changed"
            f" ({', '.join(gone)}): run manage.py migrate, then manage.py audit_verify"
        )
    if why := chain.lost():
        return (
            f"the audit is not the one that was anchored: {why}: run manage.py audit_verify; once"
            " you know why, move DATA/audit_anchors away"
        )
    return ""


def _redis(held: Rights | None, warnings: list[str], checks: dict[str, Any]) -> dict[str, Any]:
    try:
        found, rights = live_health.look(), live_rights.noted()
    except StoreUnavailable as error:
        raise NotReady(str(error)) from error
    if not found.is_new_enough:
        oldest = ".".join(map(str, OLDEST))
        raise NotReady(f"Redis {found.version} is too old: {oldest} or later is needed")
    if not found.appendonly:
        warnings.append(
            "Redis runs without appendonly: a restart of it can lose ownership and offsets"
        )
    if found.is_almost_full:
        warnings.append(
            f"Redis has {found.clients} of {found.clients_max} connections: raise its maxclients,"
            " and the open files that its process may have; an agent that finds none cannot renew"
        )
    if found.away:
        where = ", ".join(found.away) if held is not None else f"{len(found.away)} of them"
        warnings.append(
            f"nodes of the Redis Cluster do not answer ({where}): their groups wait until another"
            " takes over"
        )
    if rights is not None:
        warnings += rights.sentences(named=held is not None)
    named = {
        key: [name for name in getattr(found, key) if held and held.may(Action.SEE, name)]
        for key in ("failing_named", "differing_named")
    }
    if found.differing_groups:
        names = ", ".join(named["differing_named"])
        warnings.append(
            f"what Redis holds of {found.differing_groups} groups was not what the log of their"
            f" locks says{f' ({names})' if names else ''}, within a day; it was read anew: either"
            " somebody wrote there, or it is a bug; the dashboard's log names the partitions"
        )
    return asdict(found) | named | {"away": found.away if held is not None else ()}


def _channel_layer(warnings: list[str], checks: dict[str, Any]) -> dict[str, Any]:
    try:
        with reaching_redis(settings.CHANNELS_URL):
            return {"round_trip_ms": async_to_sync(_round_trip)()}
    except StoreUnavailable as error:
        raise NotReady(f"the channel layer does not answer: {error}") from error


async def _round_trip() -> float:
    layer: Any = get_channel_layer()
    began, nonce = time.monotonic(), uuid.uuid4().hex
    async with asyncio.timeout(left_s(ROUND_TRIP_TIMEOUT_S)):  # the layer itself waits for ever
        channel = await layer.new_channel()
        await layer.send(channel, {"type": "readyz", "nonce": nonce})
        answer = await layer.receive(channel)
    assert answer["nonce"] == nonce
    return round((time.monotonic() - began) * 1000, 1)


def _celery(warnings: list[str], checks: dict[str, Any]) -> dict[str, Any]:
    """A ticker lives, and does its rounds; beat asks for what is no tick, a worker begins it: the
    first that fails is named.
    """
    redis = checks["redis"]
    if redis is None:
        raise NotReady("the age of the Celery tick is not known without Redis")
    ages, tick_ms = redis["ages_ms"], redis["ages_ms"][Sign.TICK]
    asks, begins = _is_fresh(ages[Sign.BEAT]), _is_fresh(ages[Sign.WORKER])
    if not asks:
        warnings.append(
            "beat is away: nothing is sampled, trimmed or delivered to webhooks, and no user of"
            " Redis is put right; ticks and rebalances do without it"
        )
    if late := redis["late_groups"]:
        warnings.append(f"the Celery tick is late: {late} groups wait to be looked at")
    if failing := redis["failing_groups"]:
        _say_failing(redis, warnings)
    if not (_is_fresh(tick_ms) or late):
        last = "never ran" if tick_ms is None else f"ran last {tick_ms / 1000:.0f} s ago"
        who = "no Celery worker answers"
        if redis["tickers"]:
            who = "it fails, and the worker's log says why"
            if tick_ms is None:
                who = f"its first round goes on, or {who}"
        raise NotReady(f"the Celery tick {last}: {who}; no rebalance happens meanwhile")
    if asks and not begins:
        what = "begins a task" if redis["tickers"] else "answers"
        raise NotReady(f"no Celery worker {what}; no rebalance happens meanwhile")
    return {"tick_age_ms": tick_ms, "late_groups": late, "failing_groups": failing}


def _say_failing(redis: Mapping[str, Any], warnings: list[str]) -> None:
    """One group's trouble takes no dashboard out of service; that of all of them does."""
    count, ticked = redis["failing_groups"], redis["ticked_groups"]
    names = ", ".join(redis["failing_named"])
    text = f"the tick or history fails for {count} of {ticked} groups"
    text += f" ({names})" if names else ""
    text += ": the worker's log says why, and so does manage.py repair GROUP"
    if count >= ticked:
        raise NotReady(text)
    warnings.append(text)


def _is_fresh(age_ms: int | None) -> bool:
    return age_ms is not None and age_ms <= TICK_AGE_MAX_MS
