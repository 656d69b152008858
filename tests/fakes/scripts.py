"""Every script of assignment/lua by its name, written anew in Python."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.fakes import members, owners
from tests.fakes.group import Group

Script = Callable[[Group, Sequence[str], Sequence[str | bytes]], Any]


def _of_texts(function: Callable[[Group, Sequence[str]], Any]) -> Script:
    return lambda group, texts, _raw: function(group, texts)


SCRIPTS: dict[str, Script] = {
    function.__name__: _of_texts(function)
    for function in (
        owners.acquire,
        members.configure,
        members.evict,
        members.join,
        members.leave,
        members.set_drain,
        owners.next_batch,
        owners.progress,
        members.read_group,
        owners.release,
        owners.renew,
        members.report,
        members.restore,
        members.resume,
        members.set_incarnation,
        owners.set_state,
        members.set_target,
        owners.snapshot,
        owners.sweep,
        members.request_rebalance,
    )
} | {"commit": owners.commit}
