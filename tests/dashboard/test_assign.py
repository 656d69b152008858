"""manage.py assign: a case in, an assignment and its figures out."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.assignment.test_cases import OWN

SAID = {"members": {"a": ["t"], "b": ["t"]}, "topics": {"t": 4}, "previous": {"a": [["t", 3]]}}


def assign(
    content: object, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[int, dict[str, Any]]:
    """Exit code and what is printed; bytes and texts as they are, else as JSON."""
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    raw = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
    printed, code = io.StringIO(), 0
    try:
        call_command("assign", "-", "--json", *options, stdout=printed)
    except SystemExit as left:
        code = int(left.code or 0)
    found: dict[str, Any] = json.loads(printed.getvalue())
    return code, found


def test_the_answer_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = assign(SAID, monkeypatch)
    assert code == 0
    assert found == {
        "assignment": {"a": [["t", 1], ["t", 3]], "b": [["t", 0], ["t", 2]]},
        "metrics": {
            "sizes": {"a": 2, "b": 2},
            "moves": 0,
            "least_moves": 0,
            "avoidable_moves": 0,
            "balance_degree": 0.0,
            "max_minus_min": 0,
            "max_over_mean": 1.0,
            "score": 100.0,
            "stickiness": 1.0,
            "stickiness_best": 1.0,
        },
    }


def test_another_strategy_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = assign(SAID, monkeypatch, "--strategy", "averagely")
    assert found["assignment"] == {"a": [["t", 0], ["t", 1]], "b": [["t", 2], ["t", 3]]}
    assert (found["metrics"]["moves"], found["metrics"]["avoidable_moves"]) == (1, 1)


def test_without_members_what_is_not_known_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = assign({"members": {}, "topics": {"t": 4}}, monkeypatch)
    assert (code, found["assignment"]) == (0, {})
    assert found["metrics"]["balance_degree"] is None
    assert found["metrics"]["stickiness_best"] is None


def test_what_is_best_by_weight_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    weighted = ("--strategy", "weighted_sticky")
    _, even = assign(SAID, monkeypatch, *weighted)
    assert even["metrics"]["least_moves"] == 0
    _, found = assign(SAID | {"weights": [5, 1, 1, 1]}, monkeypatch, *weighted)
    assert (found["metrics"]["moves"], found["metrics"]["least_moves"]) == (0, None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        (b"\xff\xfe\xfa", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"members": {"a": ["t"], "a": ["t"]}, "topics": {"t": 1}}', "'a' is there twice"),
        ('{"members": {"a": ["t"]}, "topics": {"t": NaN}}', "NaN is not a number"),
        ("[]", "a case is a JSON object"),
        (SAID | {"topics": {"t": -4}}, "partitions of 't' -4 is not within 0 and 2147483647"),
        (SAID | {"members": {"a": ["x"]}}, "unknown topic 'x'"),
        (SAID | {"applies_to": ["rmq-config"]}, "config_map is missing"),
        (SAID | {"applies_to": ["rmq-config"], "config_map": {"a": [["t", 0]]}}, "t:1-3 given to"),
        (SAID | {"applies_to": ["rmq-hash"], "virtual_nodes": -1}, "virtual_nodes -1 is not"),
    ],
)
def test_a_bad_case_is_one_sentence_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, content: object, said: str
) -> None:
    code, found = assign(content, monkeypatch)
    assert code == 2
    assert list(found) == ["error"]
    assert said in found["error"]
    assert "\n" not in found["error"]


def test_an_unknown_strategy_is_refused_like_any_other_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, found = assign(SAID, monkeypatch, "--strategy", "fair")
    assert code == 2
    assert found["error"].startswith("strategy 'fair' is not known; known are averagely, circle")


def test_for_people_there_is_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(SAID | {"topics": {"t": 9}}))
    call_command("assign", str(path))
    assert capsys.readouterr().out.splitlines()[:5] == [
        "sticky",
        "",
        "member  partitions  moved here  owns",
        "a                5           0  t:1 t:3-4 t:6 t:8",
        "b                4           0  t:0 t:2 t:5 t:7",
    ]


def test_for_people_a_refusal_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file") as caught:
        call_command("assign", str(tmp_path / "nowhere.json"))
    assert caught.value.returncode == 2


def test_a_long_list_of_partitions_is_cut_in_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"members": {"a": ["t"], "b": ["t"]}, "topics": {"t": 2_000}}))
    call_command("assign", str(path), strategy="circle")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 120
    assert lines[3].split()[1] == "1000"


def test_a_case_may_be_piped_in_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    path = OWN / "range_static_before_dynamic.json"
    call_command("assign", str(path), "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["assignment"] == json.loads(path.read_text())["expected"]["assignment"]
