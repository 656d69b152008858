"""Which of several dashboard addresses is asked."""

from agent.dashboard_session.route import GO_BACK_BEATS, Route


def probed(route: Route, *answers: bool) -> Route:
    for one in answers:
        route = route.probed(answers=one)
    return route


def test_the_first_is_asked_and_nothing_looked_at_while_it_answers() -> None:
    route = Route(addresses=3)
    assert (route.order, route.to_probe) == ([0, 1, 2], None)
    assert route.answered_by(0) is route


def test_whoever_answered_is_asked_first_and_the_others_in_their_order() -> None:
    route = Route(addresses=3).answered_by(2)
    assert (route.order, route.to_probe) == ([2, 0, 1], 0)


def test_an_earlier_one_is_gone_back_to_after_ten_beats_in_a_row() -> None:
    route = Route(addresses=3).answered_by(2)
    almost = probed(route, *[True] * (GO_BACK_BEATS - 1))
    assert almost.current == 2
    assert probed(almost, True) == Route(addresses=3)
    again = probed(almost, False)
    assert (again.current, again.answered) == (2, 0)


def test_one_that_does_not_answer_gives_way_to_the_next_before_the_current() -> None:
    route = Route(addresses=3).answered_by(2)
    found = probed(route, False)
    assert found.to_probe == 1
    assert probed(found, *[True] * GO_BACK_BEATS) == Route(addresses=3, current=1)
    assert probed(found, False).to_probe == 0


def test_another_failover_forgets_what_was_counted() -> None:
    route = probed(Route(addresses=3).answered_by(1), True, True)
    assert route.answered_by(2) == Route(addresses=3, current=2)
