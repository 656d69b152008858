"""Checkers that can fail: a fault is planted in a copy of the tree, and `chaos` must tell of it.

One of them runs always; all with EVENKEEL_SWEEP=1, which takes some minutes.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.test_chaos import ROOT, chaos

SOURCES = ("agent", "assignment", "dashboard", "templates", "manage.py")

KEPT_FROM_BEFORE = """                everything = dict(reading.items())
                old = globals().setdefault("EARLY", {}).setdefault(partition, everything)
                total = reading.total
            old.update(merged(old, events))
            old, values = {}, {event["key"]: old[event["key"]] for event in events}
            return Batch(start, end, [event["id"] for event in events], values, total)
"""
TAKEN_AGAIN = """  local before = not holder and grant_of(partition)
  if before and before.member == member then return grant_again(partition, before.fence) end
  if not holder or holder == member then"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """`part` stands once in `file`; the run's options; what must be told then."""

    file: str
    part: str
    instead: str
    options: str
    told: str


PLANTED = {
    "a commit without a fence check": Planted(
        file="assignment/lua/commit.lua",
        part="if not grant or grant.fence ~= fence then",
        instead="if false then",
        options="--fault fixed-suspend --victims light-1 --agents 2 --seed 5",
        told="not fenced",
    ),
    "a fence reused": Planted(
        file="assignment/lua/acquire.lua",
        part="stored and tonumber(befores[i].fence) or 0",
        instead="stored and tonumber(befores[i].fence) - 1 or 0",
        options="--fault minor-kill --agents 2 --seconds 3 --seed 1",
        told="was given to light-",
    ),
    "progress read before the claim": Planted(
        file="agent/pipelines/light.py",
        part='                old, total = reading.get_many(event["key"] for event in events),'
        " reading.total\n",
        instead=KEPT_FROM_BEFORE,
        options="--fault fixed-cut-redis --victims light-1 --agents 2 --seconds 5 --seed 1"
        " --strategy averagely",
        told="its owner did not begin where the one before had ended",
    ),
    "a counter reset after a wipe": Planted(
        file="assignment/lua/acquire.lua",
        part="local lowest = tonumber(meta[2]) * 4294967296",
        instead="local lowest = 0",
        options="--fault redis-wipe --agents 2 --seconds 3 --seed 1",
        told="was granted under fence",
    ),
    "a lock taken again after it expired": Planted(
        file="assignment/lua/acquire.lua",
        part="  if not holder or holder == member then",
        instead=TAKEN_AGAIN,
        options="--fault one-way-cut --agents 1 --seconds 5 --seed 1",
        told="again after it had ended",
    ),
    "a switch that does not compare the mode": Planted(
        file="assignment/lua/set_mode.lua",
        part="if incarnation ~= ARGV[1] or epoch ~= ARGV[2] then",
        instead="if incarnation ~= ARGV[1] then",
        options="--fault coordination-switch --agents 2 --seconds 3 --seed 1",
        told="was not refused after another one",
    ),
}
ALWAYS = "a fence reused"
needs_sweep = pytest.mark.skipif("EVENKEEL_SWEEP" not in os.environ, reason="EVENKEEL_SWEEP=1")


def planted_tree(folder: Path, one: Planted) -> Path:
    """A copy of the sources in which one place is another."""
    tree = folder / "tree"
    tree.mkdir()
    for name in SOURCES:
        source = ROOT / name
        skip = shutil.ignore_patterns("__pycache__", "img")
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tree / name, **({"ignore": skip} if source.is_dir() else {}))
    changed = tree / one.file
    text = changed.read_text()
    assert text.count(one.part) == 1, f"{one.file} has {text.count(one.part)} times {one.part!r}"
    changed.write_text(text.replace(one.part, one.instead))
    return tree


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == ALWAYS else [needs_sweep]) for name in PLANTED],
)
def test_chaos_tells_of(name: str, tmp_path: Path) -> None:
    one = PLANTED[name]
    tree = planted_tree(tmp_path, one)
    options = (*one.options.split(), "--partitions", "6", "--out", str(tmp_path / "out"))
    code, out, said = chaos(tmp_path / "data", *options, tree=tree)
    found = json.loads(out.splitlines()[-1])
    assert code == 1, f"{found}\n{said}"
    assert any(one.told in text for text in found["violations"]), found["violations"]
