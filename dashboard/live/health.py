"""What /readyz asks of Redis."""

from dataclasses import dataclass

from django.conf import settings

from dashboard.live.connection import reaching_redis, sync_client

OLDEST = (6, 2)  # XTRIM MINID, GETDEL, SET PXAT


@dataclass(frozen=True, slots=True)
class RedisHealth:
    version: str
    new_enough: bool
    appendonly: bool
    tick_age_ms: int | None  # None: never ticked


def _tick_key() -> str:
    return f"{settings.REDIS_PREFIX}:tick_ms"


def stamp_tick() -> None:
    with reaching_redis():
        seconds, microseconds = sync_client().time()
        sync_client().set(_tick_key(), int(seconds) * 1000 + int(microseconds) // 1000)


def look() -> RedisHealth:
    """Raises StoreUnavailable."""
    with reaching_redis():
        client = sync_client()
        server = client.info("server")
        persistence = client.info("persistence")
        ticked = client.get(_tick_key())
        seconds, microseconds = client.time()
    version = str(server["redis_version"])
    now_ms = int(seconds) * 1000 + int(microseconds) // 1000
    return RedisHealth(
        version=version,
        new_enough=tuple(int(part) for part in version.split(".")[:2]) >= OLDEST,
        appendonly=bool(persistence.get("aof_enabled")),
        tick_age_ms=now_ms - int(ticked) if ticked else None,
    )
