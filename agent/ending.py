"""How a program with threads of its own ends."""

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130  # as a shell says it of a program that SIGINT ended


def run_to_end(main: Callable[[], int | None]) -> NoReturn:
    """Ends this process with what `main` returns or exits with, 1 if it fails, 130 if it was
    interrupted. What is registered with atexit is done; threads that still run are cut off where
    they are, as by a kill, and nothing of the caller's is done any more.

    Python before 3.14 instead unwinds each daemon thread that comes back from native code while the
    interpreter ends, and a destructor of C++ in its way (numpy has some) aborts the process: signal
    6 for an agent that had left in order, if it was just planning. (CPython, issue 87135.)
    """
    code = 1
    try:
        code = _code(main)
        atexit._run_exitfuncs()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed before
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(code)


def _code(main: Callable[[], int | None]) -> int:
    try:
        return main() or 0
    except SystemExit as asked:
        if isinstance(asked.code, int | None):
            return asked.code or 0
        print(asked.code, file=sys.stderr)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1
