"""GET /groups/<name>/partitions/<number>/events/: few, decoded, masked, and each look on record."""

import json
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.types import Offset
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live import decoded
from dashboard.live.decoded import MASKED, Entry
from dashboard.live.events import ALL_MAX, VALUE_MAX, RawEntry, Value
from dashboard.models import AuditEntry, Group
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.people import granted, logged_in

SECRETS = frozenset({"name"})


def arrow(rows: list[dict[str, Any]], **how: Any) -> bytes:
    return stream(pa.Table.from_pylist(rows), **how)


def stream(table: pa.Table, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **how) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


NO_NAMES = pa.table(
    {
        "who": pa.array(
            [[({"name": "ann"}, 1)]], pa.map_(pa.struct([("name", pa.string())]), pa.int8())
        )
    }
)


def entry(**values: bytes) -> Entry:
    found = (Value(name.encode(), len(text), text) for name, text in values.items())
    return decoded.decoded(RawEntry(Offset(7, 1), tuple(found)), SECRETS)


@pytest.fixture
def entries(group: Group, store: Any) -> str:
    """Thirty entries, one a second, each with its own form; ten are committed."""
    key = StreamKeys(group.stream).entries(0)
    for n in range(30):
        forms = (
            {"json": json.dumps({"n": n, "name": "<b>ann</b>"})},
            {"lines": "\n".join(json.dumps({"n": n, "name": "ann"}) for _ in range(25))},
            {"arrow": arrow([{"n": n, "name": "ann"}])},
            {"n": str(n), "name": "ann"},
        )
        store.xadd(key, forms[n % 4], id=f"{1_000 * n + 1_000}-0")
    store.hset(GroupKeys(group.name).offsets, f"{group.stream}:0", "10000-0")
    return f"groups/{group.name}/partitions/0/events"


# --- what is in an entry --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"json": b'{"n": 1, "Name": "ann"}'},
        {"lines": b'{"n": 1, "Name": "ann"}'},
        {"arrow": arrow([{"n": 1, "Name": "ann"}])},
    ],
)
def test_each_form_is_read_and_masked(values: dict[str, bytes]) -> None:
    found = entry(**values)
    assert (found.form, found.count, found.why) == (*values, 1, "")
    assert found.events == ({"n": 1, "Name": MASKED},)


def test_fields_are_masked_wherever_they_are() -> None:
    assert entry(n=b"1", name=b"ann").events == ({"n": "1", "name": MASKED},)
    nested = json.dumps({"who": [{"NAME": "ann", "of": {"name": "ann"}}]}).encode()
    assert entry(json=nested).events == ({"who": [{"NAME": MASKED, "of": {"name": MASKED}}]},)
    kind = pa.map_(pa.string(), pa.string())
    table = pa.table({"who": pa.array([[("Name", "ann"), ("n", "1")]], kind)})
    assert entry(arrow=stream(table)).events == ({"who": {"Name": MASKED, "n": "1"}},)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"json": b'{"name": "ann"'}, "not JSON"),
        ({"json": b'["ann"]'}, "not a JSON object"),
        ({"json": b"[" * 100_000}, "not JSON"),
        ({"lines": b'{"n": 1}\nann'}, "not JSON"),
        ({"arrow": b"ann"}, "not an Arrow stream of events"),
        ({"arrow": stream(NO_NAMES)}, "a map whose keys are no names"),
        (
            {"arrow": arrow([{"n": "ann"}], options=pa.ipc.IpcWriteOptions(compression="lz4"))},
            "its buffers are compressed",
        ),
    ],
)
def test_what_cannot_be_read_says_why_and_shows_nothing_that_may_be_masked(
    values: dict[str, bytes], why: str
) -> None:
    found = entry(**values)
    assert why in found.why
    assert (found.events, found.raw, found.count) == ((), "", None)
    [(name, text)] = values.items()
    unmasked = RawEntry(Offset(7, 1), (Value(name.encode(), len(text), text),))
    shown = decoded.decoded(unmasked, frozenset()).raw
    assert shown == text[:1_000].decode(errors="backslashreplace")


def test_every_prefix_and_every_flipped_byte_of_an_arrow_entry_is_read_or_refused() -> None:
    """Whoever has a producer's token writes what it likes."""
    whole = arrow([{"n": n, "s": "x" * n} for n in range(3)])
    for n in range(0, len(whole), 3):
        flipped = whole[:n] + bytes([whole[n] ^ 0xFF]) + whole[n + 1 :]
        for text in (whole[:n], flipped):
            found = entry(arrow=text)
            assert bool(found.why) != (found.count is not None)


def test_numbers_that_json_has_not_are_texts_and_what_is_long_is_cut() -> None:
    rows = arrow([{"i": 2**60, "f": float("nan"), "s": "x" * 9_000, "b": b"\xff"}])
    [event] = entry(arrow=rows).events
    assert event == {"i": str(2**60), "f": "nan", "s": "x" * 499 + "…", "b": "\\xff"}
    deep = json.dumps({"a": [[[[[[[[[[1]]]]]]]]]]}).encode()
    assert entry(json=deep).events == ({"a": [[[[[[["…"]]]]]]]},)


# --- the page and the API -------------------------------------------------------------------------


def test_the_page_is_around_the_committed_offset_and_on_record(
    visitor: Client, group: Group, entries: str
) -> None:
    page = visitor.get(f"/{entries}/").content.decode()
    assert '<tr data-key="10000-0" class="asked">' in page
    assert page.index('data-key="5000-0"') < page.index('data-key="24000-0"')
    assert 'data-key="4000-0"' not in page
    assert "&lt;b&gt;ann&lt;/b&gt;" in page
    assert "and 5 that are not shown" in page
    kept = AuditEntry.objects.latest("seq")
    assert (kept.actor, kept.action, kept.object) == ("ann", "look at events", f"{group.stream}:0")
    assert kept.after == {"entries": 20, "from": "5000-0", "to": "24000-0"}
    group.settings |= {"masked_fields": ["N", "Name"]}
    group.save()
    page = visitor.get(f"/{entries}/?edge=latest").content.decode()
    assert "ann" not in page[page.index("<tbody>") : page.index("</tbody>")]
    assert 'data-key="30000-0"' in page
    assert "?before=11000-0" in page
    assert "Older" in page
    assert "Newer" not in page


def test_what_is_asked_wrongly_is_named_and_not_on_record(
    visitor: Client, group: Group, entries: str
) -> None:
    before = AuditEntry.objects.count()
    for query, named in (
        ("offset=7", "is not of the form ms-seq"),
        ("time=noon", "is not like"),
        ("edge=left", "is not one of the choices"),
        ("offset=7-1&before=7-1", "one of them at a time"),
    ):
        assert named in visitor.get(f"/{entries}/?{query}").content.decode()
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize(("role", "status"), [("operator", 200), ("auditor", 200), ("viewer", 403)])
def test_it_takes_a_right_of_its_own(user: User, entries: str, role: str, status: int) -> None:
    granted(user, role)
    assert logged_in(user).get(f"/{entries}/").status_code == status
    assert Program.of(user).get(entries).status_code == status
    kept = AuditEntry.objects.filter(action="look at events").values_list("result", flat=True)
    assert {result.partition(":")[0] for result in kept} == {"done" if status == 200 else "denied"}


def test_the_api_tells_the_same_in_pieces(user: User, group: Group, entries: str) -> None:
    granted(user, "operator")
    program = Program.of(user)
    found = read(program.get(entries, edge="earliest", limit=2))
    assert [one["entry"] for one in found["entries"]] == ["1000-0", "2000-0"]
    assert found["entries"][0]["events"] == [{"n": 0, "name": "<b>ann</b>"}]
    assert found["entries"][0]["committed"] is True
    assert (found["first"], found["last"], found["kept"]) == ("1000-0", "30000-0", 30)
    assert (found["older"], found["newer"]) == (None, "2000-0")
    then = read(program.get(entries, after=found["newer"], limit=2))
    assert [one["entry"] for one in then["entries"]] == ["3000-0", "4000-0"]
    at = read(program.get(entries, time="1970-01-01T00:00:12Z", limit=1))
    assert [one["entry"] for one in at["entries"]] == ["12000-0"]
    assert "one of them" in problem(program.get(entries, offset="1-0", before="1-0"), 422)
    assert "partitions 0 to 3" in problem(program.get(entries.replace("/0/", "/9/")), 404)


def test_however_large_entries_are_few_bytes_of_them_are_read(
    user: User, group: Group, store: Any
) -> None:
    granted(user, "operator")
    for n in range(1, 6):
        text = json.dumps({"s": "x" * VALUE_MAX})
        store.xadd(StreamKeys(group.stream).entries(1), {"json": text}, id=f"{n}-0")
    found = read(Program.of(user).get(f"groups/{group.name}/partitions/1/events"))
    assert len(found["entries"]) == ALL_MAX // VALUE_MAX
    assert "too many to be read here" in found["entries"][0]["why"]
    assert len(found["entries"][0]["raw"]) == 1_000
    assert found["newer"] == "2-0"
    for query in ({"before": "0-0"}, {"after": f"{2**64 - 1}-{2**64 - 1}"}):
        found = read(Program.of(user).get(f"groups/{group.name}/partitions/1/events", **query))
        assert found["entries"] == []
