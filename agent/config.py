"""What an agent is told when it starts: flags first, then the environment.

Every value is checked here; a bad one is one sentence that names it (exit code 2).
"""

import argparse
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from agent import addresses, private
from assignment.bounds import CAPACITY_MAX, LINE_MAX, shown
from assignment.errors import InvalidInput
from assignment.rights import has_login, with_login, with_token_file
from assignment.types import PARTITIONS_MAX, Coordination, valid_name

SOCKET_PATH_MAX = 100  # the kernel takes 107 bytes for the address of a Unix socket
DIGITS_MAX = 20  # Python reads no number of more than 4,300
NAME_MAX = 90  # a member id is the name, a dash and six hex digits, and at most 100 characters


class ExitCode(IntEnum):
    """How an agent ends. The same list is printed by --help."""

    LEFT = 0
    BUG = 1
    BAD_CONFIGURATION = 2
    REFUSED = 3
    REDIS_UNUSABLE = 4
    HURRIED = 5


EXIT_CODES = """exit codes:
  0  left the group cleanly (SIGTERM, SIGINT, or told to by a scale-down)
  1  a bug: the log says where
  2  bad configuration: the message names the value
  3  refused: token wrong, expired or of another group, unknown group, member id in use,
     instance name with a live process, flags that contradict the group
  4  Redis is too old, refuses the login, or did not answer at the start
  5  left in a hurry (a second SIGTERM): the batch in hand was not waited for"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    group: str
    dashboards: tuple[str, ...]
    token: str
    token_file: Path | None
    redis_url: str  # with the file of --ca-file in it
    member_id: str
    instance: str  # "": none
    secret: str
    state_root: Path  # holds one numbered folder per agent of this machine
    snapshot_url: str
    socket: Path
    command: tuple[str, ...]  # empty when attached
    attach: bool
    group_flags: Mapping[str, Any] | None = None  # as Founder has them
    zone: str = ""
    capacity: float = 1.0
    ca_file: str = ""
    log_format: str = "text"

    def current_token(self) -> str:
        """A token file is read anew each time, so that a rotated token needs no restart."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text().strip() or self.token
        except OSError:
            return self.token

    @property
    def redis_token(self) -> Callable[[], str] | None:
        """What logs in to Redis, where --redis-url does not; None: nothing does."""
        return self.current_token if self.token else None

    @property
    def consumer_redis_url(self) -> str:
        """With a login, or with the file that holds it: a consumer has no token."""
        if not self.token or has_login(self.redis_url):
            return self.redis_url
        if self.token_file is not None:
            return with_token_file(self.redis_url, self.token_file.absolute())
        return with_login(self.redis_url, self.token)


def parse(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Config:
    """Raises InvalidInput; exits by itself for --help and unknown flags, as argparse does."""
    own, command = _split(arguments)
    given = _parser(environ).parse_args(own)
    instance = given.instance and _name("--instance", given.instance)
    process = f"{instance or _name('--name', given.name)}-{secrets.token_hex(3)}"
    token_file = Path(given.token_file) if given.token_file else None
    is_client = _coordination(given.coordination) is Coordination.CLIENT
    alone = is_client and not given.dashboard
    state_root = Path(given.state_dir or private.state_folder() / given.group)
    return Config(
        group=valid_name("group", _required("--group", given.group)),
        dashboards=() if alone else _dashboards(given),
        token="" if alone else _token(given.token, token_file),
        token_file=token_file,
        redis_url=_redis_url(given),
        member_id=instance or process,
        instance=instance,
        secret=secrets.token_hex(32),
        state_root=state_root.absolute(),
        snapshot_url=_snapshot_url(given.snapshot_url, state_root),
        socket=_socket(given.socket, process, given.attach, environ),
        command=_command(command, given.attach),
        attach=given.attach,
        group_flags=_group_flags(given) if is_client else None,
        zone=_zone(given.zone),
        capacity=_capacity(given.capacity),
        ca_file=addresses.ca_file(given.ca_file),
        log_format=given.log_format,
    )


def _snapshot_url(url: str, state_root: Path) -> str:
    if not url:
        return str((state_root / "snapshots").absolute())
    protocol, is_url, rest = url.partition("://")
    if is_url and protocol != "file" and not rest.strip("/"):
        raise InvalidInput(f"--snapshot-url {url!r} names no folder or bucket")
    return url


def _coordination(text: str) -> Coordination:
    try:
        return Coordination(text)
    except ValueError:
        known = ", ".join(Coordination)
        raise InvalidInput(f"--coordination {text!r} is not one of {known}") from None


def _group_flags(given: argparse.Namespace) -> dict[str, Any]:
    """By the names of GroupSettings; only what was given."""
    flags = {
        "stream": given.stream,
        "partitions": given.partitions and _partitions(given.partitions),
        "strategy": given.strategy,
        "stateful": given.stateful,
    }
    return {name: value for name, value in flags.items() if value}


def _partitions(text: str) -> int:
    if not text.isdecimal() or len(text) > DIGITS_MAX or not 1 <= int(text) <= PARTITIONS_MAX:
        shown = text if len(text) <= DIGITS_MAX else f"{text[:DIGITS_MAX]}..."
        raise InvalidInput(
            f"--partitions {shown!r} is not a whole number from 1 to {PARTITIONS_MAX}"
        )
    return int(text)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and after the first `--`."""
    own = list(arguments)
    at = own.index("--") if "--" in own else len(own)
    return own[:at], own[at + 1 :]


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evenkeel-agent",
        usage="evenkeel-agent [options] -- COMMAND ...   (or --attach --socket PATH)\n"
        "       evenkeel-agent scale-down --help",
        description="Runs beside one Spark consumer: holds its partitions, starts and watches it.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )

    def option(flag: str, variable: str, text: str, default: str = "") -> None:
        value = environ.get(variable) or default
        parser.add_argument(flag, default=value, metavar="X", help=f"{text} [{variable}]")

    option("--group", "EVENKEEL_GROUP", "name of the group")
    option("--dashboard", "EVENKEEL_DASHBOARD", "URL[,URL ...], the first that answers is used")
    option("--token", "EVENKEEL_TOKEN", "the group's agent token (better: the variable or a file)")
    option("--token-file", "EVENKEEL_TOKEN_FILE", "file that holds the token")
    option(
        "--redis-url",
        "EVENKEEL_REDIS_URL",
        "redis:// address, of a cluster redis+cluster://; without a login: the token's",
    )
    option("--name", "EVENKEEL_NAME", "first part of the member id", socket.gethostname())
    option("--instance", "EVENKEEL_INSTANCE", "member id, kept over restarts with its partitions")
    option("--state-dir", "EVENKEEL_STATE_DIR", "local disk for replicas of state")
    option("--snapshot-url", "EVENKEEL_SNAPSHOT_URL", "folder or fsspec URL all members reach")
    option("--socket", "EVENKEEL_SOCKET", "path of the socket to the consumer")
    option("--zone", "EVENKEEL_ZONE", "where this member runs")
    option("--capacity", "EVENKEEL_CAPACITY", "share of the work, relative to others", "1")
    option(
        "--coordination",
        "EVENKEEL_COORDINATION",
        "server: a dashboard computes; client: the agents do (until the group is switched)",
        Coordination.SERVER,
    )
    option("--stream", "EVENKEEL_STREAM", "of a group to be made: its stream")
    option("--partitions", "EVENKEEL_PARTITIONS", "of a group to be made: their number")
    option("--strategy", "EVENKEEL_STRATEGY", "of a group to be made, until it is changed")
    parser.add_argument("--stateful", action="store_true", help="of a group to be made")
    parser.add_argument(
        "--attach", action="store_true", help="start no consumer: wait for one at --socket"
    )
    addresses.add_options(parser, environ)
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    return parser


def _required(flag: str, value: str) -> str:
    if not value:
        raise InvalidInput(f"{flag} is missing")
    return value


def _name(flag: str, name: str) -> str:
    if len(name) > NAME_MAX:
        raise InvalidInput(f"{flag} {name!r} is longer than {NAME_MAX} characters")
    return valid_name(flag, name)


def _token(token: str, token_file: Path | None) -> str:
    if token_file is not None:
        try:
            token = token_file.read_text().strip()
        except OSError as error:
            raise InvalidInput(
                f"--token-file {token_file} cannot be read: {error.strerror}"
            ) from error
    if not token:
        raise InvalidInput("no token: give EVENKEEL_TOKEN, --token or --token-file")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput("the token holds characters that no token has")
    return token


def _dashboards(given: argparse.Namespace) -> tuple[str, ...]:
    text = _required("--dashboard", given.dashboard)
    return addresses.dashboards(text, insecure=addresses.is_insecure(given.insecure))


def _redis_url(given: argparse.Namespace) -> str:
    _required("--redis-url", given.redis_url)
    return addresses.redis_url_of(given)


def _socket(path: str, process: str, attach: bool, environ: Mapping[str, str]) -> Path:
    if attach and not path:
        raise InvalidInput("--attach needs --socket: the consumer must know where to connect")
    if not path:
        return private.runtime_folder(environ) / f"{process}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise InvalidInput(f"--socket {path!r} is longer than {SOCKET_PATH_MAX} bytes")
    return Path(path).absolute()


def _command(command: list[str], attach: bool) -> tuple[str, ...]:
    if attach and command:
        raise InvalidInput(f"--attach starts no consumer, so {command[0]!r} after -- is too much")
    if not attach and not command:
        raise InvalidInput("no consumer: give its command after --, or --attach")
    return tuple(command)


def _zone(text: str) -> str:
    if len(text) > LINE_MAX:
        raise InvalidInput(f"--zone {shown(text)} is longer than {LINE_MAX} characters")
    return text


def _capacity(text: str) -> float:
    try:
        capacity = float(text)
    except ValueError as error:
        raise InvalidInput(f"--capacity {text!r} is not a number") from error
    if not 0 < capacity <= CAPACITY_MAX:
        raise InvalidInput(f"--capacity {text} is not above 0 and at most {CAPACITY_MAX}")
    return capacity
