"""What a process of the dashboard does not start with: one sentence each, for settings.py.

Reads no environment. In production means: other machines come here, or may.
"""

import grp
import os
import pwd
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from assignment.errors import InvalidInput
from assignment.folders import UMASK, others_of, why_open
from assignment.hosts import is_loopback
from assignment.servers import is_cluster, nodes_of

OPEN = 0o027  # a secret that was put there may be given to a group for reading
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
KEY_MIN, KEY_KINDS_MIN = 50, 5  # characters of a SECRET_KEY, and different ones (Django's W009)
KEY_OF_A_TEMPLATE = "django-insecure-"
ABOVE_US = frozenset(Path(__file__).resolve().parents)  # who can exchange these runs as us anyway


def keep_private(folder: Path) -> Path:
    """DATA holds the keys of every session: made for this user only, or refused. It is not closed
    here: whoever could read it may have, and its owner should know. The folder itself, without
    links; nobody else may be able to put another one in its place.
    """
    os.umask(UMASK)
    given = folder.absolute()
    try:
        real = given.resolve()
        if real.exists():
            _check_own(real)
        for above in {*given.parents, *real.parents} - ABOVE_US:
            _check_above(real, above)
        for link in (given, *given.parents):
            if link.is_symlink():
                _check_owner(real, link, link.lstat())
        real.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_own(real)
    except (OSError, RuntimeError) as error:  # a link that leads to itself
        raise ImproperlyConfigured(f"EVENKEEL_DATA {folder} cannot be used: {error}") from error
    return real


def _check_own(folder: Path) -> None:
    found, quoted = folder.stat(), shlex.quote(str(folder))
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


def _check_above(data: Path, folder: Path) -> None:
    try:
        found = folder.stat()
    except FileNotFoundError:  # it is made, and closed
        return
    _check_owner(data, folder, found)
    if why := why_open(found, _others_of):
        raise ImproperlyConfigured(
            f"EVENKEEL_DATA {data} lies in {folder}, which {why}, who could put another folder in"
            f" its place: choose another one with --data, or close it with: chmod go-w"
            f" {shlex.quote(str(folder))}"
        )


def _others_of(group: int) -> list[str]:
    return others_of(group, os.geteuid(), pwd.getpwall(), grp.getgrall())


def _check_owner(data: Path, way: Path, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise ImproperlyConfigured(
            f"the way to EVENKEEL_DATA {data} leads over {way}, which belongs to"
            f" {_user(found.st_uid)}, who could put another folder in its place: choose another one"
            " with --data"
        )


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
    if not is_private_way(url, loopback=True):
        raise ImproperlyConfigured(
            f"EVENKEEL_URL {url!r} is not of the form https://host, and agents are refused over"
            " plain HTTP"
        )


def is_private_way(url: str, *, loopback: bool) -> bool:
    """Whether nobody else reads what travels there: encrypted, or within this machine."""
    if _is_https(url):
        return True
    return loopback and url.lower().startswith("http://") and is_loopback(_host(url))


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


def check_cluster(url: str, others: Mapping[str, str]) -> None:
    """`url`: of the groups' Redis; `others`: name -> address of what needs one Redis for all its
    keys, "" where that is the groups'.
    """
    if not is_cluster(url):
        return
    try:
        nodes_of(url)
    except InvalidInput as error:
        raise ImproperlyConfigured(f"REDIS_URL: {error}") from error
    if missing := [name for name, other in others.items() if not other]:
        raise ImproperlyConfigured(
            f"REDIS_URL names a Redis Cluster, which serves groups and streams alone: give"
            f" {' and '.join(missing)} the address of another Redis that is none"
        )


def _is_https(url: str) -> bool:
    return url.lower().startswith("https://") and bool(_host(url))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
