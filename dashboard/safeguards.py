"""What a process of the dashboard does not start with: one sentence each, for settings.py.

Reads no environment.
"""

import os
import pwd
import shlex
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

UMASK = 0o077  # of every process: what it makes is its owner's alone


def keep_private(folder: Path) -> Path:
    """DATA holds the keys of every session: made for this user only, or refused. It is not closed
    here: whoever could read it may have, and its owner should know.
    """
    os.umask(UMASK)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ImproperlyConfigured(f"EVENKEEL_DATA {folder} cannot be used: {error}") from error
    quoted = shlex.quote(str(folder))
    if found.st_uid != os.geteuid():
        mine, theirs = _user(os.geteuid()), _user(found.st_uid)
        raise ImproperlyConfigured(
            f"EVENKEEL_DATA {folder} belongs to {theirs}, not to {mine}: choose another folder with"
            f" --data, or make it yours: sudo chown -R {mine} {quoted} && chmod 700 {quoted}"
        )
    if found.st_mode & UMASK:
        raise ImproperlyConfigured(
            f"EVENKEEL_DATA {folder} is open to other users of this machine, who could read its"
            f" keys: close it with: chmod 700 {quoted}"
        )
    return folder


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
