"""Waits for its standard input to close, that is for the tree's supervisor to end however it ends,
then ends what the tree left behind. Holds the data folder's lock until nothing is left.

    python -m dashboard.demo.watchdog MARK GRACE_SECONDS
"""

import os
import signal
import sys

from dashboard.demo import processes


def main() -> None:
    mark, grace_s = sys.argv[1], float(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1024):
        pass
    processes.end_all(mark, grace_s)


if __name__ == "__main__":
    main()
