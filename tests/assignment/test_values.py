"""What calls of scripts share."""

from assignment.scripts.values import AT_ONCE, parts


def test_many_partitions_go_in_calls_of_a_bounded_size_and_in_their_order() -> None:
    some = list(range(2 * AT_ONCE + 1))
    calls = list(parts(some))
    assert [len(call) for call in calls] == [AT_ONCE, AT_ONCE, 1]
    assert [one for call in calls for one in call] == some
    assert list(parts([])) == []
