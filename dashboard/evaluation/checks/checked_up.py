"""`up` as a check needs it: commits carry the ids of their events, and nothing is trimmed.

python -m dashboard.evaluation.checks.checked_up DATA PORT
"""

import sys
from pathlib import Path

from dashboard.demo import up
from dashboard.demo.options import Options
from dashboard.evaluation.system import FLIGHTS_IN_ALL, speed_for
from dashboard.management.arguments import say

FLOW_S = 3_600.0


def options(folder: Path, port: int) -> Options:
    speed = speed_for(FLIGHTS_IN_ALL, FLOW_S)
    return Options(data=folder, port=port, check=True, speed=speed)


def main() -> None:
    sys.exit(up.run(options(Path(sys.argv[1]), int(sys.argv[2])), None, say))


if __name__ == "__main__":
    main()
