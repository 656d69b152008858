"""Asks the matrix before something is done, and keeps a trace of what was refused."""

from collections.abc import Collection

from assignment.types import NAME_PATTERN
from dashboard.actions.roles import OF_NO_GROUP, Action, Denied, Effect, Rights
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By

NO_GROUP = "There is no group {}."  # the same for who may not see it


class NotThere(Exception):
    """What an address names is not there, or hidden from who asks: nobody learns which."""


def enter(by: By, action: Action, group: str | None, *, looks: bool) -> None:
    """Whether an address opens, of a page or of the API. `group`: the one that it names; without
    one it takes the right in any group, and what is done checks the very group. Raises NotThere,
    Denied and NeedsApproval.
    """
    if group is not None and not NAME_PATTERN.fullmatch(group):
        raise NotThere(NO_GROUP.format(group))
    if group is not None and not by.rights.may(Action.SEE, group):
        if _exists(group):
            audit.denied(by, Action.SEE.value, group, why="it is hidden from this person")
        raise NotThere(NO_GROUP.format(group))
    if _is_open(by.rights, action, group, looks=looks):
        return
    if group is not None and action is not Action.MAKE_GROUP:
        find(group)
    _check(by, action, group)


def _is_open(rights: Rights, action: Action, group: str | None, *, looks: bool) -> bool:
    if group is None and action not in OF_NO_GROUP:
        return rights.anywhere(action) is not Effect.DENY
    return rights.may_look(action, group) if looks else rights.may(action, group)


def find(group: str) -> None:
    """Raises NotThere."""
    if not _exists(group):
        raise NotThere(NO_GROUP.format(group))


def _exists(group: str) -> bool:
    return Group.objects.filter(name=group).exists()


def require(by: By, action: Action, group: Group | str | None) -> None:
    """To be called before the transaction of what is done. `group`: its name when it need not
    exist yet. Raises Denied and NeedsApproval.
    """
    _check(by, action, group.name if isinstance(group, Group) else group)


def _check(by: By, action: Action, group: str | None) -> None:
    try:
        by.rights.check(action, group)
    except Denied as error:
        audit.denied(by, action.value, group, why=str(error))
        raise


def require_in_each(by: By, action: Action, groups: Collection[str], group: str, why: str) -> None:
    """Of what is done to `group` and concerns the others too. Raises Denied with `why` in place of
    their names: they may be hidden.
    """
    if all(by.rights.may(action, name) for name in groups):
        return
    audit.denied(by, action.value, group, why=why)
    raise Denied(why)
