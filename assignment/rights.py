"""What each kind of Redis user may do: rules of its ACL, as ACL SETUSER takes them.

A user has no name that anybody would have to be told: it follows from its token. Scripts run with
the rights of who calls them, so a user needs what its scripts call, and only on its own keys.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from urllib.parse import parse_qs, quote, unquote, urlsplit

from assignment import lua

NAME_DIGITS = 16  # of the digest: 64 bits, which no two tokens share by chance
_NAME = re.compile(rf"ek-[0-9a-f]{{{NAME_DIGITS}}}")
_SPECIAL = re.compile(r"([\[\]\\*?^])")  # in a pattern of keys
TOKEN_FILE = "token_file"  # option of an address: the file that holds the token of its login
_LOGIN_OPTIONS = frozenset(("username", "password", TOKEN_FILE))

# What the stores ask besides their scripts; the client tells the server its own name.
CLIENT = ("client|setinfo", "cluster|slots", "evalsha", "hget", "info|server", "ping")
AGENT_ASKS = (
    *("del", "discard", "exec", "exists", "hgetall", "hlen", "hmget", "hset", "info|replication"),
    *("multi", "pexpire", "time", "wait", "xrange", "xread", "xrevrange"),
)
PRODUCER_SCRIPT = "append"
READ_ONLY_SCRIPTS = "evalsha_ro"  # keys that may only be read are refused by EVALSHA
# The libraries choose their commands themselves, on their own keys.
NOT_BROKER = ("@admin", "@dangerous", "@scripting", "acl", "select")
BROKER_SCRIPTS = ("eval", "evalsha", "script|exists", "script|load")


@dataclass(frozen=True, slots=True)
class Server:
    """`reads_only`: it can give a key for reading alone (Redis 7, Valkey). `db`: the only database
    that may be selected there.
    """

    reads_only: bool
    db: int = 0


def digest_of(token: str) -> str:
    """SHA-256, hex: all that databases and servers keep of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def user_of(digest: str) -> str:
    """The name under which the holder of that token is known to Redis."""
    return f"ek-{digest[:NAME_DIGITS]}"


def is_of_token(user: str) -> bool:
    return _NAME.fullmatch(user) is not None


def login_of(token: str) -> tuple[str, str]:
    """User and password."""
    return user_of(digest_of(token)), token


# --- addresses ------------------------------------------------------------------------------------


def user_in(url: str) -> str:
    """As whom it logs in; "" when it names nobody, or cannot be read."""
    try:
        return unquote(urlsplit(url).username or "")
    except ValueError:
        return ""


def has_login(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return "@" in parts.netloc or not _LOGIN_OPTIONS.isdisjoint(parse_qs(parts.query))


def with_login(url: str, token: str) -> str:
    """For whoever has no token: as its user, unless the URL has a login of its own."""
    if has_login(url):
        return url
    scheme, _, rest = url.partition("://")
    user, password = login_of(token)
    return f"{scheme}://{user}:{quote(password, safe='')}@{rest}"


def without_login(url: str) -> str:
    """For whoever has a token."""
    scheme, _, rest = url.partition("://")
    place, _, options = rest.partition("?")
    kept = [o for o in options.split("&") if o and o.partition("=")[0] not in _LOGIN_OPTIONS]
    return f"{scheme}://{place.rpartition('@')[2]}" + (f"?{'&'.join(kept)}" if kept else "")


def with_token_file(url: str, path: PurePath) -> str:
    """For whoever reads the token at each connection, so that a rotated one needs no restart."""
    return f"{url}{'&' if '?' in url else '?'}{TOKEN_FILE}={quote(str(path), safe='/')}"


def token_file_in(url: str) -> str:
    """ "" when it names none."""
    try:
        return parse_qs(urlsplit(url).query).get(TOKEN_FILE, [""])[0]
    except ValueError:
        return ""


# --- rules ----------------------------------------------------------------------------------------


@cache
def agent_commands() -> tuple[str, ...]:
    """What the scripts call on a group's keys, whoever runs them, and what is asked besides."""
    scripts = (lua.commands_in(lua.script(name)) for name in lua.names())
    return tuple(sorted({*CLIENT, *AGENT_ASKS}.union(*scripts)))


@cache
def producer_commands() -> tuple[str, ...]:
    return tuple(sorted({*CLIENT, *lua.commands_in(lua.own_text(PRODUCER_SCRIPT))}))


def agent_rules(server: Server, group: str, stream: str) -> tuple[str, ...]:
    """A group's own keys, its stream for reading; no EVAL, no SCRIPT, nothing administrative."""
    own = (READ_ONLY_SCRIPTS,) if server.reads_only else ()
    reads = "%R~" if server.reads_only else "~"
    of_stream = (*_partitions(stream), f"{stream}:meta")
    keys = (f"~ek:{{{group}}}:*", *(f"{reads}{key}" for key in of_stream))
    return (*keys, "resetchannels", *_allowed((*agent_commands(), *own), server))


def producer_rules(server: Server, stream: str) -> tuple[str, ...]:
    """Appends to one stream, and reads none of its events."""
    reads = "%R~" if server.reads_only else "~"
    keys = (*(f"~{key}" for key in _partitions(stream)), f"{reads}{stream}:meta")
    return (*keys, "resetchannels", *_allowed(producer_commands(), server))


def broker_rules(server: Server, prefix: str) -> tuple[str, ...]:
    """Celery's queue and the channel layer, by the prefix of their keys; every channel."""
    escaped = _SPECIAL.sub(r"\\\1", prefix)
    keys = (f"~{escaped}:celery:*", f"~{escaped}:channels*")
    denied = (f"-{command}" for command in NOT_BROKER)
    scripts = (f"+{command}" for command in BROKER_SCRIPTS)
    return (*keys, "allchannels", "+@all", *denied, *scripts, f"+select|{server.db}")


def _partitions(stream: str) -> tuple[str, ...]:
    """Entries, producers and index of each; no other stream's keys begin so."""
    return (f"{{{stream}:[0-9]*}}", f"{{{stream}:[0-9]*}}:producers", f"{{{stream}:[0-9]*}}:index")


def _allowed(commands: tuple[str, ...], server: Server) -> tuple[str, ...]:
    return ("-@all", *(f"+{command}" for command in commands), f"+select|{server.db}")
