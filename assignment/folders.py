"""Who else could put another folder in the place of one that lies in a folder. Decides only."""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grp import struct_group
    from pwd import struct_passwd

UMASK = 0o077  # of every process: what it makes is its owner's alone
SHOWN_MAX = 3  # people


def why_open(found: os.stat_result, others: Callable[[int], Sequence[str]]) -> str:
    """A half sentence; "" when nobody could. `others`: of a group, see others_of. Where the sticky
    bit is set, only the owner of what lies in a folder may rename it.
    """
    if found.st_mode & stat.S_ISVTX:
        return ""
    if found.st_mode & stat.S_IWOTH:
        return "can be written to by everybody"
    if found.st_mode & stat.S_IWGRP and (names := others(found.st_gid)):
        return f"can be written to by others of its group ({', '.join(names[:SHOWN_MAX])})"
    return ""


def others_of(
    group: int, me: int, users: Sequence["struct_passwd"], groups: Iterable["struct_group"]
) -> list[str]:
    """Names of a group's people besides this user and root: of a user's own group there are none,
    and many systems let that one write to whatever its user makes.
    """
    members = {name for row in groups if row.gr_gid == group for name in row.gr_mem}
    numbers = {user.pw_name: user.pw_uid for user in users}
    members |= {user.pw_name for user in users if user.pw_gid == group}
    return sorted(name for name in members if numbers.get(name) not in (me, 0))
