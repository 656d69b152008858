"""What the demo's page asks of the tree that runs it: another consumer, one small file per request.

The folder DATA/demo/requests is there as long as a tree serves it: `serve` at its start, `close` at
its end. The tree looks for `waiting` now and then and answers each with `done` or `refuse`; the
page reads the refusals. To remove a consumer needs no request: its member is told to leave by a
scale-down, and its agent ends with exit code 0, which the tree takes for an end, not a death.

Written whole or not at all; a request is {"do": "add", "actor": name}. Knows no Django.
"""

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

GROUP = "flights"  # the demo's; here, for pages must not import what only the demo needs
FOLDER = Path("demo", "requests")  # below DATA
ADD = "add"
WAITING_MAX = 5  # a machine that starts five consumers has enough to do
REFUSALS_KEPT = 5


class TooMany(RuntimeError):
    """So many requests wait that another one would help nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    id: str
    do: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    at_s: float  # this machine's clock
    why: str


def is_served(data: Path) -> bool:
    return (data / FOLDER).is_dir()


def ask_to_add(
    data: Path, actor: str, about_to: Callable[[str], object] = lambda request_id: None
) -> str:
    """The request's id, which `about_to` hears before it is asked. Raises FileNotFoundError when no
    tree serves the folder, TooMany.
    """
    waits = len(waiting(data))
    if waits >= WAITING_MAX:
        raise TooMany(f"{waits} consumers are on their way already: wait until they have started")
    made = uuid.uuid4().hex
    about_to(made)
    _write(data, f"{made}.json", {"do": ADD, "actor": actor})
    return made


# --- the tree's side ------------------------------------------------------------------------------


def serve(data: Path) -> None:
    """From now on requests are looked for; what an earlier tree left is forgotten."""
    close(data)
    (data / FOLDER).mkdir(parents=True)


def close(data: Path) -> None:
    shutil.rmtree(data / FOLDER, ignore_errors=True)


def waiting(data: Path) -> list[Request]:
    """The oldest first. What cannot be read is no request and is removed."""
    return [request for path in _oldest_first(data, "*.json") if (request := _read(path))]


def done(data: Path, request_id: str) -> None:
    (data / FOLDER / f"{request_id}.json").unlink(missing_ok=True)


def refuse(data: Path, request_id: str, why: str) -> None:
    """Not carried out: `why` is one sentence for the page."""
    for old in _oldest_first(data, "*.refused")[: -(REFUSALS_KEPT - 1)]:
        old.unlink(missing_ok=True)
    _write(data, f"{request_id}.refused", {"why": why})
    done(data, request_id)


def refusals(data: Path) -> list[Refusal]:
    """The newest first."""
    found = []
    for path in reversed(_oldest_first(data, "*.refused")):
        try:
            why = str(json.loads(path.read_text())["why"])
            found.append(Refusal(at_s=path.stat().st_mtime, why=why))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


# --- files ----------------------------------------------------------------------------------------


def _write(data: Path, name: str, values: dict[str, str]) -> None:
    made = data / FOLDER / f".{name}.{uuid.uuid4().hex}"
    made.write_text(json.dumps(values) + "\n")
    made.replace(data / FOLDER / name)


def _oldest_first(data: Path, pattern: str) -> list[Path]:
    dated = []
    for path in (data / FOLDER).glob(pattern):
        try:
            dated.append((path.stat().st_mtime_ns, path.name, path))
        except FileNotFoundError:  # answered meanwhile
            continue
    return [path for _, _, path in sorted(dated)]


def _read(path: Path) -> Request | None:
    try:
        values = json.loads(path.read_text())
        request = Request(id=path.stem, do=str(values["do"]), actor=str(values.get("actor", "")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        request = Request(id=path.stem, do="", actor="")
    if request.do == ADD:
        return request
    path.unlink(missing_ok=True)
    return None
