"""Where a snapshot may lie: below the agent's own --snapshot-url, whatever a record in Redis says.

A local path that is no absolute one begins at the working folder.
"""

import os

from assignment import places
from assignment.types import Partition


def is_below(url: str, folder: str, group: str, partition: Partition) -> bool:
    """As places.is_below of the rules, here."""
    return places.is_below(url, folder, group, partition, working=os.getcwd())
