"""Groups that their agents made, with Redis alone: listed, and taken over by this dashboard."""

from typing import NamedTuple

from django.db import IntegrityError

from assignment.bounds import not_storable, shown
from assignment.scripts.dashboard_side import configure
from assignment.scripts.group_read import Meta, Purpose
from assignment.types import GroupSettings, Reason, valid_name
from dashboard import coordinator
from dashboard.actions.access import require
from dashboard.actions.groups import Refused, require_stream
from dashboard.actions.roles import EVERYTHING, Action, Rights
from dashboard.live import groups as live_groups
from dashboard.live.groups import Founded
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By

ADOPTABLE_MAX = 100  # of one page; by command any can be adopted


class Adoptable(NamedTuple):
    """`more`: how many are not in `groups`."""

    groups: list[Founded]
    more: int


def adoptable(rights: Rights = EVERYTHING) -> Adoptable:
    """Those that may be adopted, by name. Raises StoreUnavailable."""
    founded = live_groups.founded()
    known = set(Group.objects.filter(name__in=founded).values_list("name", flat=True))
    new = [n for n in founded if n not in known and rights.may_look(Action.MAKE_GROUP, n)]
    groups = live_groups.look_at(new[:ADOPTABLE_MAX])
    return Adoptable(groups, max(0, len(new) - ADOPTABLE_MAX))


@audit.attempted("adopt group")
def adopt(name: str, by: By) -> Group:
    """A record of it as it is: nothing changes for its agents; history is from now on, and of what
    Redis still has. Raises InvalidInput, Denied, Refused and StoreUnavailable.
    """
    require(by, Action.MAKE_GROUP, valid_name("group", name))
    meta = live_groups.read(name, Purpose.LOOK).meta
    if meta.settings is None:
        raise Refused(f"group {name!r} is not in Redis")
    if (text := not_storable(meta.settings.strategy_parameters)) is not None:
        raise Refused(f"settings of group {name!r} have {shown(text)}, which cannot be stored")
    require_stream(by, meta.settings.stream, name)
    try:
        with audit.atomic():
            group = _recorded(name, meta, meta.settings, by)
            call = configure(
                meta.settings,
                Reason.SETTINGS,
                rebalance_due=False,
                identity=group.identity,
                over_epoch=meta.settings_epoch,
                claims=True,
            )
            run(call, name)
            if live_groups.read(name, Purpose.LOOK).meta.identity != group.identity:
                raise Refused(f"group {name!r} changed meanwhile, or went to another dashboard")
    except IntegrityError as error:
        raise Refused(f"group {name!r} has a record here already") from error
    coordinator.look(name)
    return group


def _recorded(name: str, meta: Meta, settings: GroupSettings, by: By) -> Group:
    if meta.identity and not Group.objects.filter(name=name).exists():
        raise Refused(f"group {name!r} belongs to another dashboard")
    group = Group.objects.create(
        name=name,
        stream=settings.stream,
        partitions=settings.partitions,
        settings=settings.values(),
        created_by=by.actor,
        incarnation=meta.incarnation,
        coordination=meta.coordination.value,
        mode_incarnation=meta.mode.incarnation,
        mode_epoch=meta.mode.number,
    )
    mode = {"coordination": meta.coordination, "mode_epoch": meta.mode_epoch}
    audit.record(by, "adopt group", group, after={**group.settings, **mode})
    return group
