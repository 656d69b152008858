"""Asks the matrix before something is done, and keeps a trace of what was refused."""

from collections.abc import Collection

from dashboard.actions.roles import Action, Denied
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By


def require(by: By, action: Action, group: Group | str | None) -> None:
    """To be called before the transaction of what is done. `group`: its name when it need not
    exist yet. Raises Denied and NeedsApproval.
    """
    name = group.name if isinstance(group, Group) else group
    try:
        by.rights.check(action, name)
    except Denied as error:
        audit.denied(by, action.value, name, why=str(error))
        raise


def require_in_each(by: By, action: Action, groups: Collection[str], group: str, why: str) -> None:
    """Of what is done to `group` and concerns the others too. Raises Denied with `why` in place of
    their names: they may be hidden.
    """
    if all(by.rights.may(action, name) for name in groups):
        return
    audit.denied(by, action.value, group, why=why)
    raise Denied(why)
