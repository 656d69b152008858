"""What waits to be delivered: put there in the transaction of what it tells, sent by Celery.

A killed worker loses nothing: what it had claimed is tried again, so a receiver may see it twice,
under the same number. Each webhook's queue is bounded, and so is how often a delivery is tried.
"""

import json
import logging
import time
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from dashboard.live.attention import BY_WORD
from dashboard.models import Delivery, DeliveryState, Occurrence, Webhook
from dashboard.webhooks import sending
from dashboard.webhooks.sending import Outcome
from dashboard.webhooks.stored import Event

WAITS_MS = (10_000, 60_000, 300_000, 1_800_000, 7_200_000)  # after each try that failed
TRIES_MAX = len(WAITS_MS) + 1
WAITING_MAX = 500  # of one webhook: an hour of one every seven seconds
KEPT_MAX = 1_000  # of one webhook, for the page
DUE_MAX = 50  # of one run
RUN_S = 20.0  # then the next run goes on: within the time limit of a task
CLAIMED_MS = 60_000  # longer than a task may take

log = logging.getLogger(__name__)


def now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def put(occurrence: Occurrence, event: Event) -> None:
    """For every webhook. To be called in the transaction of what is told."""
    hooks = list(Webhook.objects.all())
    if not hooks:
        return
    body = body_of(occurrence, event)
    for hook in hooks:
        put_one(hook, event, body)


def put_one(hook: Webhook, event: Event, body: str) -> Delivery:
    at_ms = now_ms()
    waiting = hook.deliveries.filter(state=DeliveryState.PENDING).count()
    row = Delivery(webhook=hook, event=event, body=body, created_at_ms=at_ms, due_at_ms=at_ms)
    if waiting >= WAITING_MAX:
        row.state, row.ended_at_ms = DeliveryState.DROPPED, at_ms
        row.problem = f"{WAITING_MAX} deliveries wait already"
    row.save()
    _forget_old(hook)
    return row


def _forget_old(hook: Webhook) -> None:
    """Those of which nothing is to come."""
    over = hook.deliveries.exclude(state=DeliveryState.PENDING)
    kept = list(over.values_list("pk", flat=True)[:KEPT_MAX])
    if len(kept) == KEPT_MAX:
        over.filter(pk__lt=min(kept)).delete()


def body_of(occurrence: Occurrence, event: Event) -> str:
    """JSON; what each field means stands in docs/webhooks.md."""
    rule, group = BY_WORD[occurrence.rule], occurrence.group.name
    noted = {
        "by": occurrence.acknowledged_by,
        "at_ms": occurrence.acknowledged_at_ms,
        "note": occurrence.note,
    }
    return _json(
        {
            "event": event.value,
            "group": group,
            "rule": rule.word,
            "meaning": rule.meaning,
            "why": occurrence.why,
            "next_step": rule.step,
            "url": settings.PUBLIC_URL.rstrip("/") + reverse("group_attention", args=[group]),
            "began_at_ms": occurrence.began_at_ms,
            "raised_at_ms": occurrence.raised_at_ms,
            "ended_at_ms": occurrence.ended_at_ms,
            "acknowledged": noted if occurrence.is_acknowledged else None,
        }
    )


def trial_body() -> str:
    return _json({"event": Event.TEST.value, "url": settings.PUBLIC_URL})


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- sending --------------------------------------------------------------------------------------


def deliver_webhooks() -> int:
    """How many were taken. A webhook that fails waits for the next run with all that it has."""
    until_s, taken, failing = time.monotonic() + RUN_S, 0, set[int]()
    rows = Delivery.objects.filter(state=DeliveryState.PENDING, due_at_ms__lte=now_ms())
    rows = rows.select_related("webhook").order_by("due_at_ms", "pk")
    for _ in range(DUE_MAX):
        row = rows.exclude(webhook__in=failing).first()  # however much waits for those
        if row is None or time.monotonic() > until_s:
            break
        if not _is_mine(row):
            continue
        outcome = _sent(row)
        _keep(row, outcome)
        taken += not outcome.problem
        if outcome.problem:
            failing.add(row.webhook_id)
    return taken


def _is_mine(row: Delivery) -> bool:
    """Claimed, unless another worker was there before. A try that is killed counts too."""
    due = Delivery.objects.filter(pk=row.pk, state=DeliveryState.PENDING, due_at_ms=row.due_at_ms)
    row.due_at_ms, row.tries = now_ms() + CLAIMED_MS, row.tries + 1
    return due.update(due_at_ms=row.due_at_ms, tries=row.tries) == 1


def _sent(row: Delivery) -> Outcome:
    body, at_s = row.body.encode(), now_ms() // 1000
    headers = sending.signed(row.webhook.salt, at_s, body, row.pk, row.event)
    return sending.send(row.webhook.url, headers, body)


def _keep(row: Delivery, outcome: Outcome) -> None:
    at_ms = now_ms()
    row.status, row.problem = outcome.status, outcome.problem
    if not outcome.problem:
        row.state, row.ended_at_ms = DeliveryState.DELIVERED, at_ms
    elif row.tries >= TRIES_MAX:
        row.state, row.ended_at_ms = DeliveryState.FAILED, at_ms
    else:
        row.due_at_ms = at_ms + WAITS_MS[row.tries - 1]
    Delivery.objects.filter(pk=row.pk).update(
        status=row.status,
        problem=row.problem,
        state=row.state,
        ended_at_ms=row.ended_at_ms,
        due_at_ms=row.due_at_ms,
    )
    if outcome.problem:
        hook = row.webhook
        log.warning("webhook %s at %s: %s (try %d)", hook, hook.place, row.problem, row.tries)
