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

from assignment.hosts import is_loopback

UMASK = 0o077  # of every process: what it makes is its owner's alone
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


def check_debug(debug: bool, hosts: Sequence[str], development: bool) -> None:
    """Its pages show settings and values to whoever gets an error."""
    if debug and (are_others(hosts) or not development):
        raise ImproperlyConfigured(
            f"EVENKEEL_DEBUG is on and EVENKEEL_HOSTS is {','.join(hosts)!r}: debug pages are for"
            f" development on this machine alone ({', '.join(LOOPBACK)})"
        )


def are_others(hosts: Sequence[str]) -> bool:
    return not all(map(is_loopback, hosts))


def check_reached(key: str, hosts: Sequence[str]) -> None:
    """Where other machines come, over HTTPS or not."""
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


def check_encrypted(origins: Sequence[str], url: str) -> None:
    """In production."""
    for origin in origins:
        if not (origin.startswith("https://") and _is_https(origin)):
            raise ImproperlyConfigured(
                f"EVENKEEL_ORIGINS {origin!r} is not of the form https://host: forms are taken from"
                " there"
            )
    if not (_is_https(url) or is_loopback(_host(url))):
        raise ImproperlyConfigured(
            f"EVENKEEL_URL {url!r} is not of the form https://host, and agents are refused over"
            " plain HTTP"
        )


def check_address(host: str, *, key: str, hosts: Sequence[str], said: bool) -> None:
    """At which the web process listens. `said`: that this is development was not only guessed from
    hosts that are all this machine.
    """
    if is_loopback(host):
        return
    if not said:
        raise ImproperlyConfigured(
            f"--host {host} lets other machines in, and EVENKEEL_HOSTS names this one alone, which"
            " means plain HTTP: name in it the hosts that this dashboard has, or listen at"
            " 127.0.0.1; where plain HTTP is wanted, say EVENKEEL_DEVELOPMENT=1"
        )
    check_reached(key, hosts)


def _is_https(url: str) -> bool:
    return url.lower().startswith("https://") and bool(_host(url))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
