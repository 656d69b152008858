"""What a tick keeps of members: who came, and what became known of those who are there."""

from dataclasses import replace

import pytest
from msgspec import structs

from assignment import wire
from assignment.coordinator import effects
from assignment.coordinator.facts import Stay
from assignment.coordinator.stays import HOST_MAX, note_stays
from assignment.scripts.group_read import GroupRead
from tests.builders import group, live


def kept(view: GroupRead, *known: Stay) -> tuple[Stay, ...]:
    """By a tick that finds these stays."""
    found: tuple[Stay, ...] = ()
    steps, answer = note_stays(view), None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration:
            return found
        answer = known if isinstance(effect, effects.ReadStays) else ()
        if isinstance(effect, effects.KeepStays):
            found = (*found, *effect.stays)


def view(application: str = "", **row: str) -> GroupRead:
    found = group(live("a", {0: 1}))
    member = replace(found.members["a"], **{"host": "here", "version": "1", **row})
    consumer = wire.ConsumerHealth(spark_application_id=application)
    report = structs.replace(found.reports["a"], consumer=consumer)
    return replace(found, members={"a": member}, reports={"a": report})


def stay(**fields: str) -> Stay:
    joined_at_ms = view().members["a"].joined_at_ms
    own = {"host": "here", "version": "1", **fields}
    return Stay(member_id="a", joined_at_ms=joined_at_ms, **own)


def test_whoever_came_is_kept() -> None:
    assert kept(view("app-1")) == (stay(application="app-1"),)


def test_of_whom_nothing_changed_nothing_is_kept() -> None:
    assert kept(view("app-1"), stay(application="app-1")) == ()
    assert kept(view(""), stay(application="app-1")) == (), "an application stays known"


@pytest.mark.parametrize("changed", [{"host": "there"}, {"version": "2"}])
def test_the_next_process_of_an_instance_may_run_elsewhere(changed: dict[str, str]) -> None:
    assert kept(view(**changed), stay(application="app-1")) == (
        stay(application="app-1", **changed),
    )


def test_the_application_becomes_known_late() -> None:
    assert kept(view("app-2"), stay()) == (stay(application="app-2"),)


def test_what_is_shortened_or_replaced_as_it_is_kept_is_not_kept_again() -> None:
    long = view(host="h" * (HOST_MAX + 1), version="a\tb")
    [first] = kept(long)
    assert (len(first.host), first.version) == (HOST_MAX, "a\N{REPLACEMENT CHARACTER}b")
    assert kept(long, first) == ()
