"""The commands `plan` and `scale_down_preview`: what goes in, what comes out, what is refused."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).parents[2]
T3: dict[str, Any] = {
    "partitions": ["T1", "T2", "T3", "T4", "T5"],
    "stateful": True,
    "settings": {
        "standby_replicas": 0,
        "learners_max": 0,
        "acceptable_lag_records": 0,
        "learn_partial_rebalance": True,
    },
    "members": {
        "S1": {"owned": ["T1", "T2"], "learning": {"T3": {"lag": 4, "ready": False}}},
        "S2": {"owned": ["T3", "T4"], "leaving": True, "forced": False, "zone": None},
        "S3": {
            "owned": ["T5"],
            "able": True,
            "joined_at_ms": 7,
            "capacity": 1,
            "standby": {"T1": None},
            "learning": {"T4": {"lag": 0, "ready": True}},
        },
    },
}


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def planned(monkeypatch: pytest.MonkeyPatch, view: Any) -> str:
    given(monkeypatch, json.dumps(view).encode())
    out = io.StringIO()
    call_command("plan", "-", json=True, stdout=out)
    return out.getvalue()


def refused(monkeypatch: pytest.MonkeyPatch, content: bytes) -> str:
    given(monkeypatch, content)
    out = io.StringIO()
    with pytest.raises(SystemExit) as exit_info:
        call_command("plan", "-", json=True, stdout=out)
    assert exit_info.value.code == 2
    found = json.loads(out.getvalue())
    assert list(found) == ["error"]
    return str(found["error"])


def part(**kinds: list[str]) -> dict[str, list[str]]:
    return {"assigned": [], "revoked": [], "standby": [], "learning": []} | kinds


def test_plan_answers_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(planned(monkeypatch, T3)) == {
        "members": {
            "S1": part(assigned=["T1", "T2"], learning=["T3"]),
            "S2": part(assigned=["T3"], revoked=["T4"]),
            "S3": part(assigned=["T4", "T5"]),
        },
        "moves": 1,
        "balanced": True,
    }


def test_plan_needs_no_more_than_partitions_and_what_members_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    least = {"partitions": ["T10", "T2"], "members": {"b": {"owned": []}}}
    assert json.loads(planned(monkeypatch, least))["members"] == {"b": part(assigned=["T10", "T2"])}


def test_plan_reads_a_file_and_is_readable(tmp_path: Path) -> None:
    (tmp_path / "view.json").write_text(json.dumps(T3))
    out = io.StringIO()
    call_command("plan", str(tmp_path / "view.json"), stdout=out)
    assert out.getvalue().splitlines() == [
        "S1  owns T1 T2; learns T3",
        "S2  owns T3; gives up T4",
        "S3  owns T4 T5",
        "moves 1, balanced",
    ]


def test_plan_tells_people_what_is_missing(tmp_path: Path) -> None:
    view = {
        "partitions": ["T1", "T2", "T3"],
        "settings": {"standby_replicas": 2, "learners_max": 1},
        "members": {"a": {"owned": ["T1", "T2", "T3"]}, "b": {"owned": [], "able": False}},
    }
    out = io.StringIO()
    (tmp_path / "view.json").write_text(json.dumps(view))
    call_command("plan", str(tmp_path / "view.json"), stdout=out)
    assert "b  —\n" in out.getvalue()
    assert "standbys missing: T1 (2) T2 (2) T3 (2)" in out.getvalue()
    view["members"] = {f"m{n}": {"owned": ["T1", "T2", "T3"][: 3 * (n < 1)]} for n in range(3)}
    (tmp_path / "view.json").write_text(json.dumps(view))
    call_command("plan", str(tmp_path / "view.json"), stdout=out)
    assert "moves 0, not balanced\nheld back by learners_max: 1" in out.getvalue()
    view["members"] = {}
    (tmp_path / "view.json").write_text(json.dumps(view))
    call_command("plan", str(tmp_path / "view.json"), stdout=out)
    assert "without an owner: T1 T2 T3" in out.getvalue()


def test_plan_names_fields_that_mean_nothing_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = {
        "note": "",
        "partitions": [],
        "settings": {"learner_max": 1},
        "members": {"a": {"owned": [], "leavng": True}},
    }
    planned(monkeypatch, view)
    assert capsys.readouterr().err.splitlines() == [
        "plan: note is not read",
        "plan: settings.learner_max is not read",
        "plan: members.a.leavng is not read",
    ]


def with_member(**fields: Any) -> dict[str, Any]:
    return {"partitions": ["T1"], "members": {"a": {"owned": []} | fields}}


@pytest.mark.parametrize(
    ("view", "error"),
    [
        ([], "the view is [], not an object"),
        ({"partitions": []}, "the view has no 'members'"),
        ({"members": {}}, "the view has no 'partitions'"),
        ({"partitions": 5, "members": {}}, "partitions is 5, not a list"),
        (
            {"partitions": ["T1", 2], "members": {}},
            "one of partitions is 2, not a text",
        ),
        ({"partitions": ["T1", "T1"], "members": {}}, "partition 'T1' is there twice"),
        ({"partitions": [], "members": []}, "members is [], not an object"),
        ({"partitions": [], "members": {"a": 1}}, "members.a is 1, not an object"),
        ({"partitions": [], "members": {"a": {}}}, "members.a has no 'owned'"),
        (
            {"partitions": [], "members": {"": {"owned": []}}},
            "a member id is '', not a text",
        ),
        (
            {"partitions": [], "members": {}, "stateful": 1},
            "stateful is 1, not true or false",
        ),
        (
            {"partitions": [], "members": {}, "settings": {"learners_max": -1}},
            "learners_max -1 is below 0",
        ),
        (
            {"partitions": [], "members": {}, "settings": {"standby_replicas": True}},
            "settings.standby_replicas is True, not a whole number",
        ),
        (
            {"partitions": [], "members": {}, "settings": {"acceptable_lag_records": 1.5}},
            "settings.acceptable_lag_records is 1.5, not a whole number",
        ),
        (
            {"partitions": [], "members": {}, "settings": {"learn_partial_rebalance": "no"}},
            "settings.learn_partial_rebalance is 'no', not true or false",
        ),
        (with_member(owned="T1"), "members.a.owned is 'T1', not a list"),
        (with_member(able="yes"), "members.a.able is 'yes', not true or false"),
        (with_member(leaving=None), "members.a.leaving is None, not true or false"),
        (with_member(joined_at_ms="now"), "members.a.joined_at_ms is 'now', not a whole number"),
        (with_member(capacity=0), "capacity 0.0 of 'a' is not a number above 0"),
        (with_member(capacity=-1.5), "capacity -1.5 of 'a' is not a number above 0"),
        (with_member(zone=3), "members.a.zone is 3, not a text"),
        (with_member(standby=["T1"]), "members.a.standby is ['T1'], not an object"),
        (
            with_member(standby={"T1": -4}),
            "lag -4 of T1 on 'a' is below 0",
        ),
        (with_member(learning={"T1": 4}), "members.a.learning.T1 is 4, not an object"),
        (
            with_member(learning={"T1": {"lag": "x"}}),
            "members.a.learning.T1.lag is 'x', not a whole number",
        ),
        (
            with_member(learning={"T1": {"lag": 0, "ready": 1}}),
            "members.a.learning.T1.ready is 1, not true or false",
        ),
    ],
)
def test_a_bad_view_is_one_sentence(monkeypatch: pytest.MonkeyPatch, view: Any, error: str) -> None:
    assert refused(monkeypatch, json.dumps(view).encode()) == error


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"{", "'-' is not JSON"),
        (b"", "'-' is not JSON"),
        (b"\xff\xfe\xfd", "'-' is not JSON"),
        (b"[" * 100_000, "'-' is not JSON"),
        (b'{"members": {"a": 1, "a": 2}}', "'a' is there twice in one object"),
        (b'{"partitions": [NaN]}', "NaN is not a number"),
        (
            b'{"partitions": ["\\ud800"], "members": {}}',
            "'\\ud800' has a character that cannot be stored",
        ),
        (b'{"partitions": "' + b"x" * 999 + b'", "members": {}}', "xxx, not a list"),
    ],
)
def test_what_is_no_document_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, content: bytes, named: str
) -> None:
    assert named in refused(monkeypatch, content)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match=r"'nowhere.json' cannot be read: No such file") as error:
        call_command("plan", "nowhere.json")
    assert error.value.returncode == 2


# --- scale_down_preview ---------------------------------------------------------------------------


def preview(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("scale_down_preview", "--json", *arguments, stdout=out)
    return dict(json.loads(out.getvalue()))


def test_preview_tells_how_many_stay_and_leave() -> None:
    assert preview("--members", "40", "--percent", "80") == {
        "members": 40,
        "percent": 80,
        "stay": 32,
        "leave": 8,
    }
    out = io.StringIO()
    call_command("scale_down_preview", "--members", "3", "--percent", "50", stdout=out)
    assert out.getvalue() == "3 members at 50 %: 2 stay, 1 leave\n"


@pytest.mark.parametrize(
    ("members", "percent", "error"),
    [
        ("40", "abc", "percent 'abc' is not a whole number"),
        ("40", "50.5", "percent '50.5' is not a whole number"),
        ("40", "0", "percent 0 is not within 1 and 100"),
        ("40", "-1", "percent -1 is not within 1 and 100"),
        ("40", "101", "percent 101 is not within 1 and 100"),
        ("0", "50", "members 0 is below 1"),
        ("-3", "50", "members -3 is below 1"),
        ("many", "50", "members 'many' is not a whole number"),
    ],
)
def test_preview_refuses_what_is_no_scale_down(members: str, percent: str, error: str) -> None:
    out = io.StringIO()
    arguments = ["--members", members, "--percent", percent]
    with pytest.raises(SystemExit) as exit_info:
        call_command("scale_down_preview", "--json", *arguments, stdout=out)
    assert exit_info.value.code == 2
    assert json.loads(out.getvalue()) == {"error": error}


def test_preview_without_its_options_is_refused() -> None:
    with pytest.raises(CommandError, match="members is not given"):
        call_command("scale_down_preview")


def test_the_commands_end_with_their_exit_codes() -> None:
    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            input=given,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("plan", "-", "--json", given=json.dumps(T3))
    assert (done.returncode, json.loads(done.stdout)["moves"]) == (0, 1)
    wrong = run("plan", "-", given="[]")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "CommandError: the view is [], not an object\n"
    refused = run("scale_down_preview", "--members", "3", "--percent", "-5", "--json")
    assert (refused.returncode, refused.stderr) == (2, "")
