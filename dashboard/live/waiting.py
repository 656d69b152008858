"""After a wiped Redis nothing is granted for one lease: old owners may still be at work."""

from django.conf import settings

from dashboard.live.connection import keep_within, reaching_redis, sync_client


def _key(group: str) -> str:
    return f"{settings.REDIS_PREFIX}:waiting:{group}"


def wait(group: str, lease_ms: int) -> None:
    with reaching_redis():
        sync_client().set(_key(group), lease_ms, px=lease_ms)


def is_waiting(group: str) -> bool:
    with reaching_redis():
        lease_ms = sync_client().get(_key(group))
    if lease_ms is not None:
        keep_within(_key(group), int(lease_ms))
    return lease_ms is not None
