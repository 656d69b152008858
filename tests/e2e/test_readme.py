"""The README's "Your own pipeline in 20 lines", word for word, and what it says one will see.

Its blocks are taken from the README and run as they stand; only the port differs, and HOME and the
data folder are the test's own.
"""

import html.parser
import http.cookiejar
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.demo.embedded_redis import free_port

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parent.parent.parent
START_S, CONSUMER_S, SEEN_S = 120.0, 400.0, 60.0
EVENTS = 1000


def section(title: str) -> str:
    text = (ROOT / "README.md").read_text()
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(language: str, title: str = "Your own pipeline in 20 lines") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def wait_until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


class Started:
    """A process whose output is a file; its session is ended with it."""

    def __init__(self, command: str, log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A second machine's, nearly: its own home, data and temporary files."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("home", "data", "tmp"):
        (folder / name).mkdir()
    pip_cache = Path(os.environ.get("PIP_CACHE_DIR", Path.home() / ".cache" / "pip"))
    dropped = ("REDIS_URL", "DATABASE_URL", "EVENKEEL_REDIS_URL", "DJANGO_SETTINGS_MODULE")
    return {
        **{name: value for name, value in os.environ.items() if name not in dropped},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # a shim needs the real HOME
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "EVENKEEL_DATA": str(folder / "data"),
        "PIP_CACHE_DIR": str(pip_cache),
    }


@pytest.fixture(scope="module")
def dashboard(environment: dict[str, str]) -> Iterator[str]:
    """The section's first terminal. Its address."""
    (command,) = [block for block in blocks("") if "manage.py up" in block]
    port = free_port()
    data = Path(environment["EVENKEEL_DATA"])
    running = Started(f"{command.strip()} --port {port}", data / "up.log", environment)
    try:
        wait_until(lambda: "running; " in running.said(), START_S, running.said)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.end()


@pytest.fixture(scope="module")
def printed(environment: dict[str, str], dashboard: str) -> str:
    """What the section's second terminal printed, after all its lines were run."""
    (program,) = blocks("python")
    (Path(environment["HOME"]) / "orders.py").write_text(program)
    (commands,) = [block for block in blocks("") if "create_group" in block]
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def agent(environment: dict[str, str], printed: str) -> Iterator[Started]:
    (line,) = [line.strip() for line in printed.splitlines() if "evenkeel-agent " in line]
    assert "python your_pipeline.py" in line
    command = line.replace("evenkeel-agent ", "~/agent-venv/bin/evenkeel-agent ")
    command = command.replace("python your_pipeline.py", ".venv/bin/python ~/orders.py")
    running = Started(f"env {command}", Path(environment["HOME"]) / "agent.log", environment)
    yield running
    running.end()


def managed(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        ["python3", "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def status(environment: dict[str, str], group: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(managed(environment, "status", "--group", group, "--json"))
    return found


def send_again(environment: dict[str, str]) -> None:
    """The section's events once more, by its own lines."""
    (commands,) = [block for block in blocks("") if "create_group" in block]
    lines = [line for line in commands.splitlines() if line.startswith("export")]
    lines += commands[commands.index("for n in") :].splitlines()
    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        cwd=ROOT,
        env=environment,
        check=True,
    )


class Rows(html.parser.HTMLParser):
    """Rows of the accessible table of the map."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "table":
            self.inside = values.get("id") == "ownership"
        elif tag == "tr" and self.inside and "data-partition" in values:
            self.found.append(values)


def map_of(address: str, data: Path) -> list[dict[str, str | None]]:
    """Logs in as the operator and reads the group's page."""
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
    name, password = (data / "login").read_text().split()
    form = browser.open(f"{address}/login/").read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token
    values = {"username": name, "password": password, "csrfmiddlewaretoken": token[1]}
    browser.open(f"{address}/login/", urllib.parse.urlencode(values).encode())
    rows = Rows()
    rows.feed(browser.open(f"{address}/groups/orders/").read().decode())
    return rows.found


def test_the_section_leads_to_a_map_with_its_member(
    environment: dict[str, str], dashboard: str, agent: Started
) -> None:
    wait_until(lambda: status(environment)["processed"] == EVENTS, CONSUMER_S, agent.said)
    (member_id, member), *others = status(environment)["members"].items()
    assert not others
    assert member["owned"] == [f"orders:{number}" for number in range(4)]
    data = Path(environment["EVENKEEL_DATA"])
    rows = map_of(dashboard, data)
    assert [(row["data-owner"], row["data-state"]) for row in rows] == [(member_id, "owned")] * 4
    fences = {row["data-fence"] for row in rows}
    assert all(fence and int(fence) > 0 for fence in fences)


def test_a_group_with_redis_alone_is_adopted_by_a_dashboard(
    environment: dict[str, str], dashboard: str, printed: str
) -> None:
    """The Redis is the one that is there."""
    ((address, command),) = [
        block.split("\n", 1) for block in blocks("", "With Redis alone") if "--stream" in block
    ]
    name, _ = address.split("redis://")
    assert name == "export EVENKEEL_REDIS_URL="
    url = (Path(environment["EVENKEEL_DATA"]) / "redis_url").read_text().strip()
    assert command.startswith("evenkeel-agent ") and "python your_pipeline.py" in command
    command = command.replace("evenkeel-agent ", "~/agent-venv/bin/evenkeel-agent ", 1)
    command = command.replace("python your_pipeline.py", ".venv/bin/python ~/orders.py")
    log = Path(environment["HOME"]) / "alone.log"
    running = Started(f"env {command}", log, {**environment, "EVENKEEL_REDIS_URL": url})
    try:
        wait_until(lambda: "coordinates" in running.said(), CONSUMER_S, running.said)
        assert "on the dashboard" in managed(environment, "adopt_group", "totals")
        send_again(environment)  # what the other group read before may be trimmed
        wait_until(
            lambda: status(environment, "totals")["processed"] >= EVENTS, CONSUMER_S, running.said
        )
        ((_, member),) = status(environment, "totals")["members"].items()
        assert member["owned"] == [f"orders:{number}" for number in range(4)]
    finally:
        running.end()


def test_the_agent_has_no_django(environment: dict[str, str], printed: str) -> None:
    code = "from importlib.util import find_spec as f; assert not f('django') and not f('pyspark')"
    python = Path(environment["HOME"]) / "agent-venv" / "bin" / "python"
    subprocess.run([python, "-c", code], check=True, cwd=environment["HOME"])


def test_the_pipeline_has_at_most_20_lines() -> None:
    (program,) = blocks("python")
    assert len(program.splitlines()) <= 20
