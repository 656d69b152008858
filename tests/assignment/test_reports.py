"""What a heartbeat says of the owned partitions."""

from hypothesis import given
from hypothesis import strategies as st

from assignment.member.reporting import Report, Reporter
from assignment.wire import CHANGES_MAX

TWO = {"s:0": "1 running", "s:1": "2 running"}
FIVE = {f"s:{n}": "1 running" for n in range(5)}


def test_the_first_report_is_complete() -> None:
    assert Reporter().next(TWO) == Report(1, True, TWO)


def test_a_complete_report_is_repeated_until_it_is_answered() -> None:
    reporter = Reporter()
    reporter.next(TWO)
    assert reporter.next(TWO) == Report(2, True, TWO)


def test_after_that_only_what_changed_is_said() -> None:
    reporter = Reporter()
    reporter.next(FIVE)
    reporter.answered(1, complete=True, want_complete=False)
    assert reporter.next(FIVE) == Report(1, False, {})
    changes = {"s:0": None, "s:1": "1 revoking", "s:5": "3 restoring"}
    now = FIVE | {p: state for p, state in changes.items() if state}
    del now["s:0"]
    assert reporter.next(now) == Report(1, False, changes)
    assert reporter.next(now) == Report(1, False, changes)  # cumulative: a lost one costs nothing


def test_what_is_no_shorter_than_a_complete_report_is_one() -> None:
    """So those who own little, and have joined empty, do not say it all in each heartbeat."""
    reporter = Reporter()
    reporter.next({})
    reporter.answered(1, complete=True, want_complete=False)
    assert reporter.next(TWO) == Report(2, True, TWO)
    reporter.answered(2, complete=True, want_complete=False)
    assert reporter.next(TWO) == Report(2, False, {})
    assert reporter.next({}) == Report(3, True, {})
    reporter.answered(3, complete=True, want_complete=False)
    assert reporter.next({}) == Report(3, False, {})


def test_when_asked_the_next_report_is_complete() -> None:
    reporter = Reporter()
    reporter.next(TWO)
    reporter.answered(1, complete=True, want_complete=False)
    reporter.next(TWO)
    reporter.answered(1, complete=False, want_complete=True)
    assert reporter.next(TWO) == Report(2, True, TWO)


def test_too_many_changes_make_a_complete_report() -> None:
    reporter = Reporter()
    owned = {f"s:{n}": "1 running" for n in range(2 * CHANGES_MAX)}
    reporter.next(owned)
    reporter.answered(1, complete=True, want_complete=False)
    revoking = dict.fromkeys(list(owned)[: CHANGES_MAX + 1], "1 revoking")
    last = list(revoking)[-1]
    assert not reporter.next(owned | revoking | {last: owned[last]}).complete
    assert reporter.next(owned | revoking) == Report(2, True, owned | revoking)


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
