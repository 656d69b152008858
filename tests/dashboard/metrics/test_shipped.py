"""Docs, alert rules and the Grafana dashboard agree with what is told."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from dashboard.api import families
from dashboard.live.snapshot import MEMBER_STATES
from tests.dashboard.metrics.told import samples

DOCS = Path(__file__).resolve().parents[3] / "docs"
UNITS = ("_ratio", "_seconds", "_partitions", "_members", "_records")
NUMBERS = (
    "_epoch",
    "_incarnation",
    "_running",
    "_ok",
    "_left_out",
    "_acknowledged",
)  # neither counted nor measured
COUNTED = ("members", "partitions", "groups", "sockets", "attention")
Labels = dict[str, str]


@pytest.mark.django_db
def test_names_and_units_follow_prometheus(served: Any) -> None:
    for family in served():
        assert family.name.startswith("evenkeel_") and family.documentation, family.name
        bare = family.name.removeprefix("evenkeel_")
        assert not re.search(r"_(ms|percent|count|total)$", bare), family.name
        if family.type == "counter":
            assert all(s.name == f"{family.name}_total" for s in family.samples)
        elif family.type == "summary":
            assert bare.endswith("_seconds")
        else:
            assert family.type == "gauge"
            known = bare.endswith(UNITS) or bare in COUNTED
            assert known or f"_{bare}".endswith(NUMBERS), family.name
        if bare.endswith("_ratio"):
            assert all(0 <= s.value <= 1 for s in family.samples), family.name


@pytest.mark.django_db
def test_docs_name_each_metric_with_its_labels_and_no_other(served: Any) -> None:
    row = re.compile(r"^\| `(evenkeel_\w+)` \|([^|]+)\|([^|]*)\|[^|]+\|$", re.MULTILINE)
    said = {name: labels.strip() for name, _, labels in row.findall(_text("metrics.md"))}
    told = {}
    for family in served():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels}
        told[name] = labels
    assert {name: set(filter(None, labels.split(", "))) for name, labels in said.items()} == told
    assert f"{families.GROUPS_MAX:,}" in _text("metrics.md")
    for state in MEMBER_STATES:
        assert state in _text("metrics.md")


def queries() -> dict[str, str]:
    rules = [r for g in yaml.safe_load(_text("metrics/alerts.yml"))["groups"] for r in g["rules"]]
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules}
    grafana = json.loads(_text("metrics/grafana.json"))
    for panel in grafana["panels"]:
        for target in panel["targets"]:
            found[f"panel {panel['title']} {target['refId']}"] = _without_variables(target["expr"])
    for one in grafana["annotations"]["list"]:
        found[f"annotation {one['name']}"] = _without_variables(one["expr"])
    for variable in grafana["templating"]["list"]:
        if values := re.fullmatch(r"label_values\((\w+), (\w+)\)", variable.get("definition", "")):
            found[f"variable {variable['name']}"] = f"sum by ({values[2]}) ({values[1]})"
    return found


def _text(name: str) -> str:
    return (DOCS / name).read_text()


def _without_variables(expression: str) -> str:
    """As Grafana fills them in."""
    return expression.replace("$__rate_interval", "1m").replace("$group", ".+")


def test_queries_are_found() -> None:
    kinds = [name.partition(" ")[0] for name in queries()]
    assert {"alert", "panel", "annotation", "variable"} == set(kinds)
    rules = _text("metrics/alerts.yml")
    for what in (
        *("Conflict", "UnownedPartitions", "Unbalanced", "LagGrowing", "HeartbeatsRefused"),
        *("TicksAway", "AuditChainBroken"),
    ):
        assert f"alert: Evenkeel{what}\n" in rules


@pytest.mark.django_db
@pytest.mark.parametrize("name", list(queries()))
def test_each_query_asks_for_series_that_are_there(served: Any, name: str) -> None:
    found = samples(served())
    for selector, grouped in asked(promql.parse(queries()[name]), frozenset()):
        series = [s for s in found if s.name == selector.name]
        assert series, f"{selector.name} is not exposed"
        wanted = grouped | {matcher.name for matcher in selector.matchers.matchers}
        labels = {label for one in series for label in one.labels}
        assert wanted <= labels, f"{selector.name} has no label {wanted - labels}"
        fits = [s for s in series if all(_fits(m, s.labels) for m in selector.matchers.matchers)]
        assert fits, f"nothing fits {selector}"


def _fits(matcher: Any, labels: Labels) -> bool:
    assert "=~" in str(matcher), "the only one that the shipped queries use"
    return re.fullmatch(matcher.value, labels.get(matcher.name, "")) is not None


def asked(expression: Any, grouped: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Each selector, with the labels by which what it finds is gathered or matched."""
    match expression:
        case promql.VectorSelector():
            yield expression, grouped
        case promql.MatrixSelector():
            yield expression.vector_selector, grouped
        case promql.AggregateExpr():
            labels = expression.modifier.labels if expression.modifier else ()
            yield from asked(expression.expr, grouped | set(labels))
        case promql.BinaryExpr():
            matching = getattr(expression.modifier, "matching", None)
            labels = matching.labels if matching else ()
            for side in (expression.lhs, expression.rhs):
                yield from asked(side, grouped | set(labels))
        case promql.Call():
            for argument in expression.args:
                yield from asked(argument, grouped)
        case promql.ParenExpr() | promql.UnaryExpr():
            yield from asked(expression.expr, grouped)
        case promql.NumberLiteral() | promql.StringLiteral():
            pass
        case _:
            raise AssertionError(f"{type(expression)} is not known here")


@pytest.mark.django_db
def test_a_query_that_asks_for_what_is_not_there_is_found(served: Any) -> None:
    names = {s.name for s in samples(served())}
    for text, missing in (
        ("sum(evenkeel_member)", "evenkeel_member"),
        ("rate(evenkeel_heartbeats[5m])", "evenkeel_heartbeats"),
    ):
        ((selector, _),) = asked(promql.parse(text), frozenset())
        assert selector.name == missing and missing not in names
    ((_, labels),) = asked(promql.parse("sum by (member) (evenkeel_members)"), frozenset())
    assert labels == {"member"}


def test_what_is_said_beside_a_query_names_labels_that_it_keeps() -> None:
    said = {name: set(re.findall(r"by \(([\w, ]+)\)", query)) for name, query in queries().items()}
    kept = {name: set(", ".join(found).split(", ")) for name, found in said.items()}
    for group in yaml.safe_load(_text("metrics/alerts.yml"))["groups"]:
        for rule in group["rules"]:
            named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
            assert named <= kept[f"alert {rule['alert']}"], rule["alert"]
            assert {*rule["annotations"]} == {"summary", "description"}, rule["alert"]
    for panel in json.loads(_text("metrics/grafana.json"))["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert named <= kept[f"panel {panel['title']} {target['refId']}"], panel["title"]
