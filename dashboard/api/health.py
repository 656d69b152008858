"""/healthz: the process answers. /readyz: so does all that it needs; if not, why."""

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from dashboard.live import StoreUnavailable
from dashboard.live import health as live_health
from dashboard.live.connection import reaching_redis

TICK_AGE_MAX_MS = 5_000
ROUND_TRIP_TIMEOUT_S = 2


class NotReady(Exception):
    """The text says why, in a sentence that names what to do."""


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    report = look()
    return JsonResponse(report, status=200 if report["ready"] else 503)


def look() -> dict[str, Any]:
    """{"ready", "why": [...], "warnings": [...], "checks": {name: facts or null}}."""
    warnings: list[str] = []
    checks: dict[str, Any] = {}
    why: list[str] = []
    named: dict[str, Callable[[list[str]], Any]] = {
        "database": _database,
        "redis": _redis,
        "channel_layer": _channel_layer,
        "celery": _celery,
    }
    for name, check in named.items():
        try:
            checks[name] = check(warnings)
        except NotReady as error:
            checks[name] = None
            why.append(str(error))
    return {"ready": not why, "why": why, "warnings": warnings, "checks": checks}


def _database(warnings: list[str]) -> dict[str, Any]:
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        raise NotReady(f"the database does not answer: {error}") from error
    if missing:
        raise NotReady(f"{len(missing)} migrations are missing: run manage.py migrate")
    return {"vendor": connection.vendor}


def _redis(warnings: list[str]) -> dict[str, Any]:
    try:
        found = live_health.look()
    except StoreUnavailable as error:
        raise NotReady(str(error)) from error
    if not found.new_enough:
        oldest = ".".join(map(str, live_health.OLDEST))
        raise NotReady(f"Redis {found.version} is too old: {oldest} or later is needed")
    if not found.appendonly:
        warnings.append(
            "Redis runs without appendonly: a restart of it can lose ownership and offsets"
        )
    return {"version": found.version, "appendonly": found.appendonly}


def _channel_layer(warnings: list[str]) -> dict[str, Any]:
    try:
        with reaching_redis():
            return {"round_trip_ms": async_to_sync(_round_trip)()}
    except StoreUnavailable as error:
        raise NotReady(f"the channel layer does not answer: {error}") from error


async def _round_trip() -> float:
    layer = get_channel_layer()
    assert layer is not None, "CHANNEL_LAYERS is always configured"
    began = time.monotonic()
    channel = await layer.new_channel()
    nonce = uuid.uuid4().hex
    await layer.send(channel, {"type": "readyz", "nonce": nonce})
    try:
        answer = await asyncio.wait_for(layer.receive(channel), ROUND_TRIP_TIMEOUT_S)
    except TimeoutError as error:
        why = f"the channel layer gave nothing back in {ROUND_TRIP_TIMEOUT_S} s"
        raise NotReady(why) from error
    assert answer["nonce"] == nonce
    return round((time.monotonic() - began) * 1000, 1)


def _celery(warnings: list[str]) -> dict[str, Any]:
    """The tick runs in a worker and is asked for by beat: its age tells of both; a ping tells which
    one it is.
    """
    try:
        age_ms = live_health.look().tick_age_ms
    except StoreUnavailable as error:
        raise NotReady("the age of the Celery tick is not known: Redis is away") from error
    if age_ms is not None and age_ms <= TICK_AGE_MAX_MS:
        return {"tick_age_ms": age_ms}
    last = "never ran" if age_ms is None else f"ran last {age_ms / 1000:.0f} s ago"
    who = "beat does not ask for it" if _worker_answers() else "no Celery worker answers"
    raise NotReady(f"the Celery tick {last}: {who}; no rebalance happens meanwhile")


def _worker_answers() -> bool:
    from dashboard.celery import app

    try:
        return bool(app.control.ping(timeout=1, limit=1))
    except OSError:
        return False
