#!/usr/bin/env python3
"""Evenkeel's one entry point: makes its own virtual environment when needed, then runs a command.

Standard library only above `run_command`, and nothing that Python 3.8 cannot read: it must start on
a machine with nothing but Python, and say there what is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
MARK = VENV / "evenkeel.sha256"
SUPPORTED = ((3, 11), (3, 12), (3, 13))
BAD_INPUT = 3  # as of every command; 1 is the answer of a check that found something
HOW_TO_GET = (
    "with the system: `apt install python3.13 python3.13-venv` (Debian, Ubuntu) or"
    " `dnf install python3.13` (Fedora); for yourself: `uv python install 3.13` (docs.astral.sh/uv)"
)
# As pip compiles packages: where PYTHONDONTWRITEBYTECODE is set, as images of containers have it,
# each of the many processes would compile all that it imports, a third of what its start takes.
COMPILED = ("agent", "assignment", "dashboard")
PRODUCTION = ("django", "channels_redis", "axes")  # what requirements-production.lock brings


def lock_digest() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def is_set_up() -> bool:
    return VENV_PYTHON.exists() and MARK.exists() and MARK.read_text() == lock_digest()


def runs_supported(candidate: str) -> bool:
    """A version manager leaves shims on PATH that start nothing, so it is asked, not believed."""
    code = "import sys; print(*sys.version_info[:2])"
    answer = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
    return tuple(answer.stdout.split()) in {(str(a), str(b)) for a, b in SUPPORTED}


def supported_python() -> str:
    if sys.version_info[:2] in SUPPORTED:
        return sys.executable
    for major, minor in reversed(SUPPORTED):
        found = shutil.which(f"python{major}.{minor}")
        if found and runs_supported(found):
            return found
    sys.exit(
        "evenkeel needs Python 3.11, 3.12 or 3.13 with its venv; this is"
        f" {sys.version.split()[0]} and no other one is on PATH. Get one, then start this again:"
        f" {HOW_TO_GET}"
    )


def install() -> None:
    """Makes .venv hold what the lock says; the mark is written last, so a cut run repeats."""
    if VENV.is_symlink():  # what it leads to would be emptied, and belongs to somebody else
        sys.exit(
            f"evenkeel: {VENV} is a symbolic link and does not hold what {LOCK.name} says: remove"
            " the link, and a folder is made in its place, or set up what it leads to"
        )
    python = supported_python()
    print("evenkeel: setting up .venv (once, 2-3 minutes) ...", file=sys.stderr, flush=True)
    MARK.unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "PIP_REQUIRE_HASHES"}
    pip = [str(VENV_PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    for command in (
        [python, "-m", "venv", "--clear", str(VENV)],
        [*pip, "--require-hashes", "-r", str(LOCK)],
        [*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)],
        [str(VENV_PYTHON), "-m", "compileall", "-q", *COMPILED],
    ):
        done = subprocess.run(command, stdout=sys.stderr, cwd=ROOT, env=environment, check=False)
        if done.returncode:
            failed = " ".join(command[1:5])
            sys.exit(f"evenkeel: set-up failed at: {failed}; run it again to repair")
    MARK.write_text(lock_digest())


def is_production() -> bool:
    """Whether an environment of the operator's own runs this, which holds what production needs."""
    own = sys.prefix != sys.base_prefix and Path(sys.prefix).resolve() != VENV.resolve()
    return own and all(importlib.util.find_spec(name) for name in PRODUCTION)


def run_in_venv() -> None:
    if is_production():
        return
    if not is_set_up():
        with open(ROOT / ".venv.lock", "w") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            if not is_set_up():
                install()
    if Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), str(Path(__file__).resolve()), *sys.argv[1:]])


def data_option(arguments: list[str]) -> str | None:
    """The value of --data: settings are read, and their folder made, before any command parses."""
    for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
        if argument == "--data":
            return following
        if argument.startswith("--data="):
            return argument.removeprefix("--data=")
    return None


def run_command() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    if data := data_option(sys.argv):
        os.environ["EVENKEEL_DATA"] = data
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        why = str(error)
    except ModuleNotFoundError as error:
        if not is_production():
            raise
        why = f"{error.name} is not in production's lock: start this with a Python outside of it"
    else:
        return
    print(f"evenkeel: {why}", file=sys.stderr)
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    run_in_venv()
    run_command()
