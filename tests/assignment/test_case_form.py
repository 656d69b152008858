"""The form of a case: what it may leave out, what is refused by name, what goes to a strategy."""

from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from assignment.errors import InvalidInput
from assignment.strategies import NAMES, get
from assignment.strategies.cases import PARTITIONS_MAX, STRATEGY_OF, Case, read_case
from assignment.types import Partition

SAID: dict[str, Any] = {"members": {"a": ["t"], "b": ["t"]}, "topics": {"t": 4}}


def numbers(case: Case) -> list[list[int]]:
    assigned = get(case.strategy, case.parameters)(case.given)
    return [[p.number for p in own] for own in assigned.values()]


def said(**changes: Any) -> dict[str, Any]:
    return {k: v for k, v in (SAID | changes).items() if v is not None}


# --- which strategy -------------------------------------------------------------------------------


def test_members_and_topics_are_enough_for_sticky() -> None:
    case = read_case(SAID)
    assert (case.strategy, numbers(case)) == ("sticky", [[0, 2], [1, 3]])


@pytest.mark.parametrize("name", sorted(STRATEGY_OF))
def test_the_case_says_which_strategy_it_is_for(name: str) -> None:
    assert read_case(said(applies_to=["another", name])).strategy == STRATEGY_OF[name]


def test_the_strategy_asked_for_comes_before_the_cases_own() -> None:
    assert read_case(said(applies_to=["kafka-range"]), "circle").strategy == "circle"


@pytest.mark.parametrize(
    ("changes", "strategy", "message"),
    [
        ({"applies_to": ["another"]}, None, "applies_to .'another'. names no strategy"),
        ({"applies_to": "rmq-avg"}, None, "applies_to is 'rmq-avg', not a list"),
        ({"applies_to": [3]}, None, "applies_to is 3, not a text"),
        ({}, "fair", "strategy 'fair' is not known; known are averagely"),
        ({}, "", "strategy '' is not known"),
    ],
)
def test_a_strategy_that_is_not_known_is_refused(
    changes: dict[str, Any], strategy: str | None, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_case(said(**changes), strategy)


# --- what is wrong is named -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": None}, "members is missing"),
        ({"members": ["a"]}, "members is .'a'., not an object"),
        ({"members": {"": ["t"]}}, "member id is '', not a text"),
        ({"members": {"a": "t"}}, "members.a is 't', not a list"),
        ({"members": {"a": None}}, "members.a is None, not a list"),
        ({"members": {"a": [1]}}, "topic of 'a' is 1, not a text"),
        ({"members": {"a": ["x"]}}, "'a' subscribes to unknown topic 'x'"),
        ({"members": {"\ud800": ["t"]}}, "is not Unicode"),
        ({"topics": None}, "topics is missing"),
        ({"topics": [4]}, "topics is .4., not an object"),
        ({"topics": {"t": -1}}, "partitions of 't' -1 is not within 0 and 2147483647"),
        ({"topics": {"t": 2.0}}, "partitions of 't' is 2.0, not a whole number"),
        ({"topics": {"t": True}}, "partitions of 't' is True"),
        ({"topics": {"t": "4"}}, "partitions of 't' is '4'"),
        ({"topics": {"t": PARTITIONS_MAX + 1}}, f"are more than {PARTITIONS_MAX}"),
        ({"previous": []}, None),
        ({"previous": [1]}, "previous is .1., not an object"),
        ({"previous": {"a": [["t"]]}}, "previous of 'a' has .'t'., which is no"),
        ({"previous": {"a": [["t", -1]]}}, "which is no .topic, partition."),
        ({"previous": {"a": [["t", "1"]]}}, "which is no"),
        ({"previous": {"a": [["t", True]]}}, "which is no"),
        ({"previous": {"a": "t0"}}, "previous.a is 't0', not a list"),
        ({"member_meta": {"a": {"generation": "new"}}, "previous": {"a": []}}, "generation of 'a'"),
        ({"member_meta": {"a": {"generation": 2**70}}, "previous": {"a": []}}, "generation of 'a'"),
        ({"member_meta": {"a": {"instance": 3}}}, "instance of 'a' is 3, not a text"),
        ({"member_meta": {"a": {"rack": []}}}, "rack of 'a'"),
        ({"member_meta": {"a": 1}}, "member_meta.a is 1, not an object"),
        ({"member_meta": {"a": {"capacity": "1"}}}, "capacity of 'a' is '1', not a number"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str | None) -> None:
    if message is None:
        read_case(said(**changes))
        return
    with pytest.raises(InvalidInput, match=message):
        read_case(said(**changes))


@pytest.mark.parametrize("document", [None, [], "case", 3, [SAID]])
def test_a_case_is_an_object(document: object) -> None:
    with pytest.raises(InvalidInput, match="a case is a JSON object"):
        read_case(document)


# --- topics that are not there --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_ignored"),
    [
        ({}, False),
        ({"name": "sticky_unknown_topic_ignored"}, True),
        ({"note": "an unknown topic is ignored"}, True),
        ({"applies_to": ["kafka-sticky", "kafka-coop"]}, True),
        ({"applies_to": ["kafka-range"]}, True),
        ({"applies_to": ["kafka-range", "kip848-range"]}, False),
        ({"applies_to": ["kip848-uniform"]}, False),
        ({"applies_to": ["kafka-range"], "expected": {"error": "unknown topic"}}, False),
        ({"topics": {}}, True),
        ({"topics": {}, "applies_to": ["kip848-uniform"]}, False),
    ],
)
def test_unknown_topics_are_refused_unless_the_case_says_otherwise(
    changes: dict[str, Any], is_ignored: bool
) -> None:
    asked = said(**({"members": {"a": ["x"]}} | changes))
    if is_ignored:
        assert numbers(read_case(asked)) == [[]]
    else:
        with pytest.raises(InvalidInput, match="unknown topic 'x'"):
            read_case(asked)


# --- who owned what -------------------------------------------------------------------------------


def before(**changes: Any) -> dict[int, str]:
    return {p.number: m for p, m in read_case(said(**changes)).before.items()}


def test_the_newer_claim_counts_and_equal_ones_count_for_neither() -> None:
    previous = {"a": [["t", 0], ["t", 1]], "b": [["t", 0], ["t", 1], ["t", 1]]}
    assert before(previous=previous) == {}
    newer = {"a": {"generation": 3}, "b": {"generation": 2}}
    assert before(previous=previous, member_meta=newer) == {0: "a", 1: "a"}
    unsaid = {"b": {"generation": 0}}
    assert before(previous=previous, member_meta=unsaid) == {0: "b", 1: "b"}


def test_a_third_newer_claim_ends_a_tie() -> None:
    case = said(
        members={m: ["t"] for m in "abc"},
        previous={m: [["t", 0]] for m in "abc"},
        member_meta={"a": {"generation": 1}, "b": {"generation": 1}, "c": {"generation": 2}},
    )
    assert read_case(case).before == {Partition("t", 0): "c"}


def test_members_that_are_gone_owned_it_too_where_no_live_one_says_so() -> None:
    previous = {"gone": [["t", 0], ["t", 1]], "a": [["t", 1]]}
    assert before(previous=previous) == {0: "gone", 1: "a"}


def test_partitions_that_are_no_more_do_not_count() -> None:
    assert before(previous={"a": [["t", 4], ["x", 0], ["t", 3]]}) == {3: "a"}


# --- parameters -----------------------------------------------------------------------------------


def test_brokers_of_rooms_make_zones() -> None:
    brokers = {"0": "r1@b", "1": "r2@b", "2": "plain", "3": "r1@c@d"}
    case = read_case(said(allowed_rooms=["r1", "r2"], queue_brokers=brokers), "zone")
    assert numbers(case) == [[0], [1]]


def test_four_partitions_of_one_room_on_three_members() -> None:
    case = said(
        members={m: ["t"] for m in "abc"},
        allowed_rooms=["r"],
        queue_brokers={str(n): "r@b" for n in range(4)},
    )
    assert numbers(read_case(case, "zone")) == [[0, 3], [1], [2]]


def test_a_queue_number_is_that_of_every_topic() -> None:
    case = said(
        topics={"t": 1, "u": 2},
        members={"a": ["t", "u"]},
        allowed_rooms=["r"],
        queue_brokers={"0": "r@b", "u:1": "r@b"},
    )
    assert numbers(read_case(case, "zone")) == [[0, 0, 1]]


def test_queues_per_room_and_ids_make_rooms_and_their_members() -> None:
    """Rooms IDC1 and IDC2 with members, IDC3 without: its queues are shared by all."""
    case = read_case(
        {
            "members": {m: ["t"] for m in ("IDC1-CID-0", "IDC1-CID-1", "IDC2-CID-0")},
            "topics": {"t": 9},
            "queues_per_room": 3,
        },
        "zone_nearby",
    )
    assert numbers(case) == [[0, 1, 6], [2, 7], [3, 4, 5, 8]]


def test_a_rack_is_the_members_zone() -> None:
    case = said(
        member_meta={"a": {"rack": "r2"}, "b": {"rack": "r1"}},
        queue_brokers={"0": "r1-broker", "1": "r1@b", "2": "r2-broker", "3": "r2-broker"},
    )
    assert numbers(read_case(case, "zone_nearby")) == [[2, 3], [0, 1]]


def test_weights_and_capacities_go_to_weighted_sticky() -> None:
    case = said(weights={"t:0": 9}, member_meta={"b": {"capacity": 3.0}})
    assert numbers(read_case(case, "weighted_sticky")) == [[1, 2, 3], [0]]


def test_the_time_of_joining_goes_to_join_order() -> None:
    case = said(member_meta={"a": {"joined_at_ms": 7}})
    assert numbers(read_case(case, "join_order")) == [[2, 3], [0, 1]]


def test_instances_make_members_static() -> None:
    case = said(member_meta={"b": {"instance": "i"}, "a": {"instance": None}})
    assert numbers(read_case(case, "range")) == [[2, 3], [0, 1]]


def test_a_map_is_taken_or_refused_with_everything_that_is_wrong() -> None:
    right = said(config_map={"a": [["t", 0], ["t", 1]], "b": [["t", 2], ["t", 3]]})
    assert numbers(read_case(right, "config")) == [[0, 1], [2, 3]]
    wrong = read_case(said(config_map={"a": [["t", 0], ["t", 1]], "b": [["t", 1]]}), "config")
    with pytest.raises(InvalidInput, match="t:1 given more than once; t:2-3 given to nobody"):
        numbers(wrong)


def test_fields_of_other_strategies_do_no_harm() -> None:
    extra = {"virtual_nodes": 0, "config_map": 3, "weights": "x", "colour": "red"}
    for name in NAMES:
        if name not in ("consistent_hash", "config", "weighted_sticky", "zone", "zone_nearby"):
            owned = numbers(read_case(said(**extra), name))
            assert sorted(n for own in owned for n in own) == [0, 1, 2, 3]


# --- anything at all ------------------------------------------------------------------------------

FIELDS = (
    *("members", "topics", "previous", "member_meta", "applies_to", "expected", "name", "note"),
    *("virtual_nodes", "config_map", "allowed_rooms", "queue_brokers", "queues_per_room"),
    *("weights", "default_weight", "moves_max", "inner", "partition_zones", "parameters"),
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.floats(allow_nan=False)
    | st.sampled_from(("", "a", "t", "r@b", "0-3", "t:1", "kafka-range", "circle", "\ud800"))
)
names = st.sampled_from(("a", "b", "t", "u", "0", "1-2", "", "generation", "instance", "rack"))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


@over(
    st.dictionaries(st.sampled_from(FIELDS), anything, max_size=5),
    st.booleans(),
    st.none() | st.sampled_from(NAMES),
)
@settings(max_examples=600)
def test_any_document_is_answered_or_refused_in_words(
    fields: dict[str, Any], on_top: bool, strategy: str | None
) -> None:
    """Never a traceback of another kind: what is wrong is InvalidInput, of one line."""
    try:
        case = read_case(SAID | fields if on_top else fields, strategy)
        assigned = get(case.strategy, case.parameters)(case.given)
    except InvalidInput as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert set(assigned) == {m.member_id for m in case.given.members}
