"""After a wiped Redis nothing is granted for one lease: old owners may still be at work."""

from django.conf import settings

from dashboard.live.connection import reaching_redis, sync_client


def _key(group: str) -> str:
    return f"{settings.REDIS_PREFIX}:waiting:{group}"


def wait(group: str, lease_ms: int) -> None:
    with reaching_redis():
        sync_client().set(_key(group), 1, px=lease_ms)


def is_waiting(group: str) -> bool:
    with reaching_redis():
        return bool(sync_client().exists(_key(group)))
