"""`python3 manage.py pause GROUP [--partition N ...] --reason TEXT`: nothing of it is read or
committed until `resume`; owners keep their locks.

Exit 0: asked for, also when it was so already; the text says how many owners have confirmed. 3 and
one sentence: refused, or bad input; 1: Redis or the database cannot be asked.
"""

from dashboard.actions import pausing
from dashboard.management.pausing import PauseCommand


class Command(PauseCommand):
    help = "Pauses a group, or some of its partitions."
    action = staticmethod(pausing.pause)
