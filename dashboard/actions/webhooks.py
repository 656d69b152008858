"""Webhooks: create, give a new secret, try, remove. Of no single group: each is told of all."""

from dataclasses import dataclass

from django.db import IntegrityError

from assignment.types import valid_name
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.models import Delivery, Webhook
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.webhooks import addresses, queue, signing
from dashboard.webhooks.stored import Event

WEBHOOKS_MAX = 20  # each of them multiplies what is sent


@dataclass(frozen=True, slots=True)
class MadeWebhook:
    """`secret` is shown once and stored nowhere."""

    webhook: Webhook
    secret: str


@audit.attempted("create webhook", in_group=False)
def create(name: str, url: str, by: By) -> MadeWebhook:
    """Raises InvalidInput (the name, or an address that is not allowed), Refused."""
    require(by, Action.MANAGE_WEBHOOKS, None)
    valid_name("webhook", name)
    addresses.target_of(url)
    if Webhook.objects.count() >= WEBHOOKS_MAX:
        raise Refused(f"there are {WEBHOOKS_MAX} webhooks already: remove one first")
    salt = signing.new_salt()
    try:
        with audit.atomic():
            hook = Webhook.objects.create(name=name, url=url, salt=salt, created_by=by.actor)
            audit.record(by, "create webhook", object=name, after={"host": hook.place})
    except IntegrityError as error:
        raise Refused(f"webhook {name!r} exists already") from error
    return MadeWebhook(hook, signing.secret_of(salt))


@audit.attempted("rotate webhook", in_group=False)
def rotate(hook: Webhook, by: By) -> MadeWebhook:
    """From now on all is signed with the new secret, also what waits."""
    require(by, Action.MANAGE_WEBHOOKS, None)
    with audit.atomic():
        hook.salt = signing.new_salt()
        hook.save(update_fields=["salt"])
        audit.record(by, "rotate webhook", object=hook.name, after={"host": hook.place})
    return MadeWebhook(hook, signing.secret_of(hook.salt))


@audit.attempted("try webhook", in_group=False)
def send_test(hook: Webhook, by: By) -> Delivery:
    """Put with what waits; the list says what came of it. Raises InvalidInput: not allowed now."""
    require(by, Action.MANAGE_WEBHOOKS, None)
    addresses.target_of(hook.url)
    with audit.atomic():
        audit.record(by, "try webhook", object=hook.name, after={"host": hook.place})
        return queue.put_one(hook, Event.TEST, queue.trial_body())


@audit.attempted("remove webhook", in_group=False)
def remove(hook: Webhook, by: By) -> None:
    """With all that waits for it."""
    require(by, Action.MANAGE_WEBHOOKS, None)
    with audit.atomic():
        audit.record(by, "remove webhook", object=hook.name, before={"host": hook.place})
        hook.delete()
