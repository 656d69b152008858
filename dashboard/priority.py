"""Who comes first where a machine has too little CPU: agents and pages, Redis and the ticks. A
worker's tasks can wait some seconds, a heartbeat cannot: agents that are not answered in time come
again, are taken for lost, and make more tasks.

Linux shares its cores out by session first (man 7 sched, "The autogroup feature"), where systemd or
a container does not do it by control group, and in a session by process.
"""

import os
from contextlib import suppress
from pathlib import Path

# A third of what each of the others has, when all want more than there is. With a tenth, beside
# four sessions that took all they got, a worker needed a minute to start.
NICE = 5
AUTOGROUP = Path("/proc/self/autogroup")


def wait_for_others() -> None:
    """This process, and what it starts from now on."""
    os.nice(max(0, NICE - os.nice(0)))


def session_waits() -> None:
    """All processes of this session, if it is this process' own: a terminal's is not. Where the
    kernel has no such feature it shares by process.
    """
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            AUTOGROUP.write_text(str(NICE))


def leave_session() -> None:
    """What makes the others of the session wait is not for this process. A worker starts it as one
    of its own group; who starts it by hand as a leader has no session to leave.
    """
    with suppress(PermissionError):
        os.setsid()
