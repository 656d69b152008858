"""`python3 manage.py resume GROUP [--partition N ...] --reason TEXT`: what was paused goes on from
its committed offset. Exit codes as of `pause`.
"""

from dashboard.actions import pausing
from dashboard.management.pausing import PauseCommand


class Command(PauseCommand):
    help = "Resumes a group, or some of its partitions."
    action = staticmethod(pausing.resume)
