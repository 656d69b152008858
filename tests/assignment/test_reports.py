"""What a heartbeat says of the owned partitions."""

from hypothesis import given
from hypothesis import strategies as st

from assignment.member.reporting import Report, Reporter
from assignment.wire import CHANGES_MAX

TWO = {"s:0": "1 running", "s:1": "2 running"}


def test_the_first_report_is_complete() -> None:
    assert Reporter().next(TWO) == Report(1, True, TWO)


def test_a_complete_report_is_repeated_until_it_is_answered() -> None:
    reporter = Reporter()
    reporter.next(TWO)
    assert reporter.next(TWO) == Report(2, True, TWO)


def test_after_that_only_what_changed_is_said() -> None:
    reporter = Reporter()
    reporter.next(TWO)
    reporter.answered(1, complete=True, want_complete=False)
    assert reporter.next(TWO) == Report(1, False, {})
    now = {"s:1": "2 revoking", "s:2": "3 restoring"}
    changes = {"s:0": None, "s:1": "2 revoking", "s:2": "3 restoring"}
    assert reporter.next(now) == Report(1, False, changes)
    assert reporter.next(now) == Report(1, False, changes)  # cumulative: a lost one costs nothing


def test_when_asked_the_next_report_is_complete() -> None:
    reporter = Reporter()
    reporter.next(TWO)
    reporter.answered(1, complete=True, want_complete=False)
    reporter.next(TWO)
    reporter.answered(1, complete=False, want_complete=True)
    assert reporter.next(TWO) == Report(2, True, TWO)


def test_too_many_changes_make_a_complete_report() -> None:
    reporter = Reporter()
    reporter.next({})
    reporter.answered(1, complete=True, want_complete=False)
    owned = {f"s:{n}": "1 running" for n in range(CHANGES_MAX + 1)}
    assert not reporter.next(dict(list(owned.items())[:CHANGES_MAX])).complete
    assert reporter.next(owned) == Report(2, True, owned)


def test_an_answer_to_an_older_report_changes_nothing() -> None:
    reporter = Reporter()
    reporter.next(TWO)
    reporter.next(TWO)
    reporter.answered(1, complete=True, want_complete=False)
    assert reporter.next(TWO).complete


OWNED = st.dictionaries(st.sampled_from([f"s:{n}" for n in range(6)]), st.sampled_from("ab"))


@given(st.lists(st.tuples(OWNED, st.booleans(), st.booleans()), max_size=30))
def test_who_keeps_what_arrived_knows_what_is_owned(
    beats: list[tuple[dict[str, str], bool, bool]],
) -> None:
    """`reports` in Redis: the last complete report with that number, and every change since."""
    reporter = Reporter()
    number, base, changes = 0, dict[str, str | None](), dict[str, str | None]()
    for owned, arrives, answered in beats:
        report = reporter.next(owned)
        if not arrives:
            continue
        if report.complete:
            number, base, changes = report.number, dict(report.owned), {}
        elif report.number == number:
            changes = dict(report.owned)
        wants = report.number != number
        if not wants:
            known = {p: v for p, v in (base | changes).items() if v is not None}
            assert known == owned
        if answered:
            reporter.answered(report.number, report.complete, wants)
