"""Who waits for whom where there is too little CPU. Each case is a process of its own: niceness can
only be raised.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.priority import AUTOGROUP, NICE

PROGRAM = """
import os
from pathlib import Path
from dashboard import priority
{does}
group = Path("/proc/self/autogroup").read_text().split()[-1]
print(os.nice(0), os.getsid(0) == os.getpid(), group)
"""

HAS_GROUPS = AUTOGROUP.exists() and AUTOGROUP.read_text().strip()
pytestmark = pytest.mark.skipif(not HAS_GROUPS, reason="this kernel has no autogroups")


def nice_leads_and_group(does: str, *, leads: bool) -> tuple[int, bool, int]:
    """Niceness, whether it leads its session, and that session's niceness, after `does`."""
    command = [sys.executable, "-c", PROGRAM.format(does=does)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, start_new_session=leads)
    nice, is_leader, group = said.stdout.decode().split()
    return int(nice), is_leader == "True", int(group)


def of_this_session() -> int:
    return int(Path("/proc/self/autogroup").read_text().split()[-1])


def test_a_process_waits_for_others_however_often_it_is_told() -> None:
    does = "priority.wait_for_others(); priority.wait_for_others()"
    assert nice_leads_and_group(does, leads=False) == (NICE, False, of_this_session())


def test_who_is_nicer_already_stays_so() -> None:
    nice, _, _ = nice_leads_and_group("os.nice(15); priority.wait_for_others()", leads=False)
    assert nice == 15


def test_a_session_of_its_own_waits_and_that_of_a_terminal_does_not() -> None:
    does = "priority.session_waits()"
    assert nice_leads_and_group(does, leads=True) == (0, True, NICE)
    before = of_this_session()
    assert nice_leads_and_group(does, leads=False) == (0, False, before)
    assert of_this_session() == before


def test_who_leaves_the_session_does_not_wait() -> None:
    does = """
priority.session_waits()
if os.fork():
    os.wait()
    os._exit(0)
priority.leave_session()
"""
    assert nice_leads_and_group(does, leads=True) == (0, True, 0)


def test_who_leads_its_session_stays_in_it() -> None:
    assert nice_leads_and_group("priority.leave_session()", leads=True) == (0, True, 0)


def test_where_the_kernel_has_no_autogroups_a_session_is_as_it_was(tmp_path: Path) -> None:
    does = f"priority.AUTOGROUP = Path({str(tmp_path / 'missing' / 'file')!r})"
    does = f"{does}; priority.session_waits()"
    assert nice_leads_and_group(does, leads=True) == (0, True, 0)
