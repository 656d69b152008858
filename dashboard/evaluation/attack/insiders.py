"""Who has a right, and reaches for more: a token's holder in Redis, one whose token was revoked,
another user of the machine.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from assignment.rights import with_login
from assignment.wire import GroupKeys
from dashboard.evaluation.attack.mutated import good
from dashboard.evaluation.attack.state import changed
from dashboard.evaluation.attack.target import HOST, Found, NotJudged, Target
from dashboard.live.connection import NoPermissionError, RedisError, client_of

REVOKED_WITHIN_S = 1.0
NOBODY = 65_534
OF_TOKEN = re.compile(rb'data-token="(\d+)"')
KEYS_MAX = 100  # of others, tried with every command
WAYS = (
    *("DEL {}", "DUMP {}", "EXPIRE {} 9", "GET {}", "HGETALL {}", "HSET {} a b", "RENAME {} x"),
    *("SET {} x", "TYPE {}", "XADD {} * a b", "XRANGE {} - +", "XTRIM {} MAXLEN 0"),
)
WRITES = ("DEL {}", "HSET {} a b", "SET {} x", "XADD {} * a b", "XTRIM {} MAXLEN 0")
READS_ONLY = 7  # the first version of Redis that can
NEVER = (
    *("ACL LIST", "ACL WHOAMI", "CLIENT LIST", "CONFIG GET *", "DBSIZE", "EVAL return 0"),
    *("FLUSHALL", "FUNCTION LIST", "KEYS *", "PUBLISH a b", "REPLICAOF NO ONE", "SAVE", "SCAN 0"),
    *("SCRIPT FLUSH", "SELECT 1", "SLOWLOG GET", "SUBSCRIBE a"),
)


def revoked(target: Target) -> Found:
    """A token that was taken back is refused within a second, though it was just used."""
    person, body = target.sign_in(), good(target.group, "join")
    token = person.new_token(target.group)
    page = f"/groups/{target.group}/tokens/"
    rows = OF_TOKEN.findall(person.ask("GET", page).body)
    if target.post(target.group, "join", body, token).status != 200 or not rows:
        raise NotJudged("a new token was not taken")
    newest = max(map(int, rows))
    answer = person.ask("POST", page, urlencode({"do": "revoke", "token": newest}).encode())
    time.sleep(REVOKED_WITHIN_S)
    after = target.post(target.group, "join", body, token).status
    problems = (
        [] if after == 401 else [f"{answer.status}, and after a second it was answered {after}"]
    )
    return Found("one token", problems)


def redis_user(target: Target) -> Found:
    """What a token opens in Redis: its own group, no other key, no command that is not for keys."""
    own = _client(target, target.tokens[target.group])
    try:
        if not _asked(own, "HGETALL", GroupKeys(target.group).meta):
            raise NotJudged("the token's user cannot read its own group")
        foreign, of_stream = _keys_of_others(target)
        if not foreign:
            raise NotJudged("Redis holds no key of others")
        before, problems = target.state(), list[str]()
        tried = [*NEVER, *(way.replace("{}", name) for name in foreign for way in WAYS)]
        tried += [way.replace("{}", name) for name in of_stream for way in WRITES]
        for way in tried:
            problems += _let_through(own, way)
        if what := changed(before, target.state()):
            problems.append(f"changed {what}")
        shown = f"{len(NEVER)} commands, {len(foreign)} keys in {len(WAYS)} ways"
        return Found(f"{shown}, {len(of_stream)} of its stream in {len(WRITES)}", problems)
    finally:
        own.close()


def _client(target: Target, token: str) -> Any:
    place = urlsplit(target.redis_url)
    return client_of(with_login(f"redis://{HOST}:{place.port}{place.path}", token))


def _keys_of_others(target: Target) -> tuple[list[str], list[str]]:
    """Those that are not the group's, and those of its stream, which has its name: where Redis can
    give a key for reading alone they may not be written.
    """
    own = GroupKeys(target.group).meta.removesuffix("meta")
    streams = (f"{target.group}:", f"{{{target.group}:")
    with client_of(target.redis_url) as everything:
        names = sorted(name.decode() for name in everything.scan_iter(count=1_000))
        reads_only = int(everything.info("server")["redis_version"].split(".")[0]) >= READS_ONLY
    foreign = [name for name in names if not name.startswith((own, *streams))]
    of_stream = [name for name in names if name.startswith(streams)] if reads_only else []
    return foreign[:KEYS_MAX], of_stream[:KEYS_MAX]


def _asked(client: Any, *words: str) -> Any:
    try:
        return client.execute_command(*words)
    except RedisError as error:
        raise NotJudged(f"{words[0]} was answered {error}") from error


def _let_through(client: Any, way: str) -> Iterator[str]:
    try:
        client.execute_command(*way.split(" "))
    except NoPermissionError:
        return
    except RedisError as error:
        if str(error).startswith("unknown command"):
            return  # an older server
        yield f"{way} was answered {error}"
    else:
        yield f"{way} was done"


def other_user(target: Target) -> Found:
    """Everything in DATA, by another user of the machine."""
    paths = [target.data, *sorted(target.data.rglob("*"))]
    problems = [f"{path.name} is open to other users" for path in paths if not _is_closed(path)]
    if os.geteuid() == 0:  # who else may start a process of another user
        # By its own path: folders of PATH may be closed to the other user.
        find = os.path.realpath(shutil.which("find") or "/usr/bin/find")
        words = [find, str(target.data), "(", "-readable", "-o", "-writable", ")"]
        tried = subprocess.run(
            words,
            check=False,  # it says that it may not even look
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=60,
        )
        problems += [f"{line} can be opened" for line in tried.stdout.decode().splitlines()]
    return Found(f"{len(paths)} files", problems)


def _is_closed(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    return path.is_symlink() or (found.st_uid == os.geteuid() and not found.st_mode & 0o077)
