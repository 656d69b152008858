"""GET and POST /evaluations/, and the report of a run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.demo.tree import TreeFailed
from dashboard.evaluation import stored
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.stored import Evaluation
from dashboard.models import AuditEntry

RESULT = {"recovered_ms": 500, "moves": 2, "lost": 0, "doubled": 0, "violations": []}
ASKED = {"agents": 2, "partitions": 4, "seconds": 3, "seed": 5}
FORM = {**ASKED, "fault": "minor-kill", "coordination": "server", "strategy": "sticky"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Settings) -> Path:
    settings.DATA = tmp_path
    return tmp_path


def ended(
    coordination: str = "server",
    code: int = 0,
    faults: tuple[str, ...] = ("minor-kill",),
    **result: Any,
) -> Evaluation:
    asked = Asked(faults=faults, coordination=coordination, **ASKED)
    row = stored.made(asked, "ann")
    stored.end(row.pk, code, {**RESULT, **result})
    row.refresh_from_db()
    return row


@pytest.fixture
def admin(visitor: Client) -> Client:
    return visitor


@pytest.mark.parametrize("options", [{"faults": ["gone"]}, {"renamed": 1}])
def test_a_run_that_another_version_asked_for_is_listed(
    visitor: Client, options: dict[str, Any]
) -> None:
    row = ended()
    row.options = {**row.options, **options}
    row.save()
    answer = visitor.get("/evaluations/")
    assert answer.status_code == 200 and not answer.context["compared"]
    assert [shown.pk for shown in answer.context["page"].rows] == [row.pk]


def test_coordinations_stand_side_by_side_under_one_fault(visitor: Client) -> None:
    for recovered_ms in (100, 300, 500):
        ended("client", recovered_ms=recovered_ms)
    ended("server", code=1, unaffected_paused=0.25)
    ended("server", faults=("flap",), moves=40)
    of = visitor.get("/evaluations/").context["compared"]
    assert [(c.faults, c.coordination) for c in of] == [
        *(("flap", "server"), ("minor-kill", "client"), ("minor-kill", "server"))
    ]
    _, client, server = of
    assert (client.runs, client.held, client.recovered_ms) == (3, 3, 300)
    assert (server.runs, server.held, server.moves) == (1, 0, 2)
    assert (client.unaffected_paused, server.unaffected_paused) == (None, 0.25)
    assert client.size == "2 agents, 4 partitions, light, default timings, 3 s"


@pytest.mark.parametrize(
    ("result", "verdict"),
    [({"vacuous": True, "healed": True}, "vacuous"), ({"healed": False}, "not healed")],
)
def test_what_did_nothing_is_told_from_what_did_not_heal(
    visitor: Client, result: dict[str, Any], verdict: str
) -> None:
    ended(code=2, **result)
    assert f'data-verdict="{verdict}"' in visitor.get("/evaluations/").content.decode()


def test_a_run_that_failed_says_why(visitor: Client) -> None:
    row = ended(code=3, error="the web process was not ready")
    assert row.verdict == "failed"
    assert "the web process was not ready" in visitor.get("/evaluations/").content.decode()


def test_a_run_that_its_harness_ended_keeps_the_reason(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object) -> None:
        raise TreeFailed("the web process was not ready")

    monkeypatch.setattr("dashboard.management.commands.chaos.run", run)
    with pytest.raises(SystemExit) as ended:
        call_command("chaos", "--fault", "minor-kill")
    row = Evaluation.objects.get()
    assert (ended.value.code, row.exit_code) == (3, 3)
    assert row.why == "the web process was not ready"


def test_without_a_run_it_is_told_how_to_start_one(visitor: Client) -> None:
    page = visitor.get("/evaluations/").content.decode()
    assert "No run yet." in page and "chaos --fault minor-kill" in page and "<table" not in page


def test_a_violation_is_shown_with_its_run(visitor: Client) -> None:
    ended(code=1, violations=["fence 5 of chaos:0 was given to a and to b"])
    page = visitor.get("/evaluations/").content.decode()
    assert "violated" in page and "was given to a and to b" in page
    assert "--fault minor-kill --agents 2" in page


def test_a_list_asks_the_database_no_more_for_more_runs(
    visitor: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        ended()
    with django_assert_max_num_queries(6):
        visitor.get("/evaluations/")


def test_the_report_opens_and_may_reach_nothing(visitor: Client) -> None:
    row = ended()
    assert visitor.get(f"/evaluations/{row.pk}/").status_code == 404
    (row.folder / "report.html").write_text("<title>chaos</title>")
    answer = visitor.get(f"/evaluations/{row.pk}/")
    assert b"<title>chaos" in answer.getvalue()
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert f'href="/evaluations/{row.pk}/"' in visitor.get("/evaluations/").content.decode()


def test_only_an_admin_starts_a_run(viewer: Client) -> None:
    assert b"Start a run" not in viewer.get("/evaluations/").content
    assert viewer.post("/evaluations/", FORM).status_code == 403
    assert not Evaluation.objects.exists()


def test_a_run_that_is_started_has_a_process_of_its_own(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[list[str], dict[str, Any]]] = []

    def begin(words: list[str], **how: Any) -> Any:
        assert AuditEntry.objects.filter(action="start evaluation").count() == 1  # before it begins
        begun.append((words, how))
        how["stderr"].write(b"  1.0 s  striking: minor-kill\n")
        return psutil.Process(os.getpid())

    monkeypatch.setattr(stored.subprocess, "Popen", begin)  # type: ignore[attr-defined]
    assert admin.post("/evaluations/", FORM).status_code == 302
    (words, how) = begun[0]
    row = Evaluation.objects.get()
    assert words[-2:] == ["--evaluation", str(row.pk)]
    assert "--fast" in words and "--seed" in words and how["start_new_session"]
    assert row.is_running and "striking: minor-kill" in admin.get("/evaluations/").content.decode()
    assert AuditEntry.objects.filter(action="start evaluation").count() == 1
    again = admin.post("/evaluations/", FORM)
    assert b"minor-kill runs already" in again.content and len(begun) == 1
    refused = AuditEntry.objects.get(action="start evaluation", result__startswith="refused")
    assert (refused.actor, refused.object) == ("ann", "minor-kill")


def test_a_run_whose_process_cannot_be_started_is_refused(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(*_: Any, **how: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(stored.subprocess, "Popen", begin)  # type: ignore[attr-defined]
    answer = admin.post("/evaluations/", FORM)
    assert b"no process can be started: Cannot allocate memory" in answer.content
    assert AuditEntry.objects.filter(result__startswith="refused: no process").exists()


def test_a_fault_that_is_not_known_is_refused_beside_the_form(admin: Client) -> None:
    answer = admin.post("/evaluations/", {**FORM, "fault": "nonsense"})
    assert b"there is no fault &#x27;nonsense&#x27;" in answer.content
    assert not Evaluation.objects.exists()


def test_a_run_whose_process_is_gone_has_failed(visitor: Client) -> None:
    row = stored.made(Asked(faults=("flap",), **ASKED), "ann")
    row.pid, row.pid_started = os.getpid(), 1.0  # another process had that number
    row.save()
    assert row.verdict == "failed"


def test_a_run_that_was_killed_has_failed_though_nobody_asked_for_its_end(visitor: Client) -> None:
    row = stored.made(Asked(faults=("flap",), **ASKED), "ann")
    (row.folder / stored.PROGRESS).write_text("  3.0 s  striking: flap\n")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        stored.note_process(row, child.pid)
        assert (row.verdict, row.why) == ("running", "3.0 s  striking: flap")
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
        assert row.verdict == "failed"
        assert "its process ended; last: 3.0 s" in visitor.get("/evaluations/").content.decode()
    finally:
        child.communicate()
