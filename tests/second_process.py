"""A plugin (`pytest -p tests.second_process`, as `manage.py test` has it): tests that take only
CPU, and after them those of the browser, run in a second process beside the others, most of which
wait: at last for Spark, one consumer after the other.

The second process has servers, a database and folders of its own, and a lower priority, so that
tests which look at real time hardly notice it. What looks closely at real time itself has no place
in OWN: the API's own client finds 503 there (tests/dashboard/api_v1/test_schema.py). Nor have the
simulation's long runs, which the first process begins ahead, in processes of their own. What it
reports is told by the first process at the end, as if it had run there: counts, durations and
failures are those of the whole suite. Without the plugin one process does all.

pytest-xdist was rejected: its processes take whatever comes next, so that two tests which need a
quiet machine meet, and what the whole suite shares is begun in each of them.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.beside import interrupt

OWN = (
    *("tests/assignment", "tests/contract", "tests/agent/test_flights.py"),
    *(f"tests/dashboard/{n}" for n in ("pages", "metrics", "webhooks", "single_sign_on")),
    *(f"tests/dashboard/api_v1/test_{n}.py" for n in ("commands", "doors", "reads")),
    *(f"tests/dashboard/test_{n}.py" for n in ("settings", "safeguards", "retention")),
    *(f"tests/dashboard/test_{n}.py" for n in ("*_migration", "role*", "rights", "a*_rules")),
    *(f"tests/dashboard/test_{n}.py" for n in ("plan*", "scale_down*", "ownership_maps")),
    *(f"tests/dashboard/test_{n}.py" for n in ("bench_*", "flights_check", "history*")),
    *(f"tests/dashboard/test_{n}.py" for n in ("resting", "redis_backup", "api_messages")),
    "tests/e2e/browser",
)  # as globs
FOLDER = "EVENKEEL_SECOND_PROCESS"  # what it is to run, what it reports
NICE = 5  # a third of what the first process gets where both want the same core
OF_SESSION = Path("/proc/self/autogroup")  # Linux weighs sessions first, processes within them
SAID_MAX = 8_000  # characters of the output of one that ended early


class SecondProcess:
    """Runs `share` from the beginning."""

    def __init__(self, config: pytest.Config, share: list[pytest.Item], folder: Path) -> None:
        self._config, self._folder = config, folder
        self._missing = {item.nodeid: item.location for item in share}
        self._failed = False
        (folder / "chosen").write_text(json.dumps(list(self._missing)))
        (folder / "reports").touch()
        plugins = ("-p", "no:cacheprovider", "-p", __name__)
        with (folder / "said").open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", *plugins, *map(str, _own(config))],
                cwd=config.rootpath,
                env={**os.environ, FOLDER: str(folder), "EVENKEEL_DATA": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def tell(self) -> None:
        """Waits for it, and tells what it reported; what it did not report has failed."""
        code = self._process.wait()
        for report in self._reports():
            self._tell(report)
        if self._missing or code != int(self._failed):
            self._tell(self._ended_early(code))

    def _reports(self) -> Iterator[pytest.TestReport]:
        read = self._config.hook.pytest_report_from_serializable
        cut_off = suppress(EOFError, pickle.UnpicklingError)  # in the middle of the last one
        with (self._folder / "reports").open("rb") as reports, cut_off:
            while True:
                yield read(config=self._config, data=pickle.load(reports))

    def _tell(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        if report.when == "setup":
            hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
        hook.pytest_runtest_logreport(report=report)
        self._failed |= report.failed
        if report.when == "teardown":
            hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
            self._missing.pop(report.nodeid, None)

    def _ended_early(self, code: int) -> pytest.TestReport:
        said = (self._folder / "said").read_text(errors="replace")[-SAID_MAX:]
        what = f"the second process ended with {code}, {len(self._missing)} tests were not run"
        nodeid, location = next(iter(self._missing.items()), ("second process", ("", None, "")))
        return pytest.TestReport(nodeid, location, {}, "failed", f"{what}\n{said}", "call")

    def stop(self) -> None:
        interrupt(self._process)


class Second:
    """In the second process: runs what was chosen, and writes down every report."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        give_way(NICE)
        self._config, self._first = config, os.getppid()
        self._chosen = set(json.loads((folder / "chosen").read_text()))
        self._reports = (folder / "reports").open("wb")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._chosen]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        write = self._config.hook.pytest_report_to_serializable
        pickle.dump(write(config=self._config, report=report), self._reports)
        self._reports.flush()
        if os.getppid() != self._first:
            pytest.exit("the first process was killed")


class First:
    """In the first process: leaves the second one its share, unless that is all or nothing."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[object]:
        own = set(_own(session.config))
        share = [i for i in session.items if own & {i.path, *i.path.parents}]
        if session.config.option.collectonly or len(share) in (0, len(session.items)):
            return (yield)
        theirs = set(share)
        session.items = [item for item in session.items if item not in theirs]
        with tempfile.TemporaryDirectory(prefix="second-") as folder:
            second = SecondProcess(session.config, share, Path(folder))
            try:
                ran = yield
                second.tell()
                return ran
            finally:
                second.stop()


def give_way(nice: int) -> None:
    """This process gets less than those of other sessions, too."""
    os.setsid()
    os.nice(nice)
    with suppress(OSError):
        OF_SESSION.write_text(str(nice))


def _own(config: pytest.Config) -> list[Path]:
    """In the order of OWN, each once."""
    if given := config.getoption("second"):
        return [config.rootpath / path for path in given]
    found = [path for pattern in OWN for path in sorted(config.rootpath.glob(pattern))]
    return list(dict.fromkeys(found))


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "a file or folder of tests for the second process, instead of those of its own"
    parser.addoption("--second", action="append", metavar="PATH", help=told)


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.pop(FOLDER, None)
    config.pluginmanager.register(Second(config, Path(folder)) if folder else First())
