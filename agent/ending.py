"""How a program with threads of its own ends."""

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn


def run_to_end(main: Callable[[], int | None]) -> NoReturn:
    """Ends this process with what `main` returns or exits with, 1 if it fails. What is registered
    with atexit is done; threads that still run are cut off where they are, as by a kill.

    Python before 3.14 instead unwinds each daemon thread that comes back from native code while the
    interpreter ends, and a destructor of C++ in its way (numpy has some) aborts the process: signal
    6 for an agent that had left in order, if it was just planning. (CPython, issue 87135.)
    """
    code = 1
    try:
        code = _code(main)
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads it
                stream.flush()
        os._exit(code)


def _code(main: Callable[[], int | None]) -> int:
    try:
        return main() or 0
    except SystemExit as asked:
        if isinstance(asked.code, int | None):
            return asked.code or 0
        print(asked.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1
