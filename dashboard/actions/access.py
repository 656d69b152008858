"""Asks the matrix before something is done, and keeps a trace of what was refused."""

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
