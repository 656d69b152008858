"""What a process of the dashboard does not start with: one sentence each, for settings.py.

Reads no environment. In production means: other machines come here, or may.
"""

import os
import pwd
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

UMASK = 0o077  # of every process: what it makes is its owner's alone
OPEN = 0o027  # a secret that was put there may be given to a group for reading
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
KEY_MIN, KEY_KINDS_MIN = 50, 5  # characters of a SECRET_KEY, and different ones (Django's W009)
KEY_OF_A_TEMPLATE = "django-insecure-"


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


def read_secret(name: str, path: Path) -> str:
    """From a file that its owner, and at most its group, can read; raises ImproperlyConfigured."""
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name} {path} cannot be read: {error}") from error
    if mode & OPEN:
        raise ImproperlyConfigured(
            f"{name} {path} is open to other users of this machine: close it with:"
            f" chmod 600 {shlex.quote(str(path))}"
        )
    return text


def check_debug(debug: bool, hosts: Sequence[str], development: bool) -> None:
    """Its pages show settings and values to whoever gets an error."""
    others = [host for host in hosts if host not in LOOPBACK]
    if debug and (others or not development):
        raise ImproperlyConfigured(
            f"EVENKEEL_DEBUG is on and EVENKEEL_HOSTS is {','.join(hosts)!r}: debug pages are for"
            f" development on this machine alone ({', '.join(LOOPBACK)})"
        )


def check_production(key: str, hosts: Sequence[str], origins: Sequence[str], url: str) -> None:
    if len(key) < KEY_MIN or len(set(key)) < KEY_KINDS_MIN or key.startswith(KEY_OF_A_TEMPLATE):
        raise ImproperlyConfigured(
            f"SECRET_KEY can be guessed: give {KEY_MIN} or more characters drawn at random, or"
            " leave it out, then one is made in DATA"
        )
    if "*" in hosts:
        raise ImproperlyConfigured(
            "EVENKEEL_HOSTS is '*', so every name is answered to: name the hosts that this"
            " dashboard has"
        )
    for origin in origins:
        if not origin.startswith("https://"):
            raise ImproperlyConfigured(
                f"EVENKEEL_ORIGINS {origin!r} is not of the form https://host: forms are taken from"
                " there"
            )
    if not is_private_way(url, loopback=True):
        raise ImproperlyConfigured(
            f"EVENKEEL_URL {url!r} is plain HTTP, which agents are refused: give https://"
        )


def is_private_way(url: str, *, loopback: bool) -> bool:
    """Whether nobody else reads what travels there: encrypted, or within this machine."""
    if url.startswith("https://"):
        return _host(url) != ""
    return loopback and url.startswith("http://") and _host(url) in LOOPBACK


def _host(url: str) -> str:
    """As EVENKEEL_HOSTS names it."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return f"[{host}]" if ":" in host else host
