"""What holds for a member whatever happens to it, in any order."""

from hypothesis import example, given
from hypothesis import strategies as st

from assignment.member import messages
from assignment.member.decisions import decide
from assignment.member.state import (
    ConsumerState,
    MemberState,
    claims_of,
    is_outdated,
    wanted_partitions,
)
from assignment.member.transitions import handle, restore_ordered
from assignment.member.troubles import UNSERVED_FOR_MS
from assignment.types import Claim, Drain, Epoch, Held, HeldState
from tests.assignment.member_states import NOW, RESTORING, RUNNING, after, claim, row
from tests.builders import GRACE_MS, fence, partition, settings

NUMBERS = st.integers(0, 3)
EPOCHS = st.builds(Epoch, st.integers(1, 2), st.integers(1, 20))
CLAIMS = st.builds(claim, NUMBERS, st.integers(1, 4))
STATES = st.sampled_from(list(HeldState))
HELD = st.builds(
    lambda counter, state: Held(fence=fence(counter), state=state), st.integers(1, 4), STATES
)
REFUSALS = st.builds(
    messages.Refusal, st.builds(partition, NUMBERS), st.just("held"), st.integers(0, 200_000)
)
EVENTS = st.one_of(
    st.just(messages.Joined()),
    st.just(messages.Fenced()),
    st.just(messages.TryAgain()),
    st.just(messages.Tick()),
    st.builds(messages.EpochsSeen, st.integers(0, 3), st.integers(0, 2)),
    st.builds(
        lambda incarnation, numbers, epoch: messages.TargetSeen(
            row(*numbers, epoch=epoch, incarnation=incarnation)
        ),
        st.integers(1, 2),
        st.frozensets(NUMBERS),
        st.integers(1, 20),
    ),
    st.builds(messages.Renewed, st.integers(0, 200_000), st.frozensets(CLAIMS, max_size=2)),
    st.builds(messages.Granted, st.dictionaries(CLAIMS, STATES, max_size=3)),
    st.builds(messages.Refused, st.lists(REFUSALS, max_size=3)),
    st.builds(messages.RestoreEnded, CLAIMS, st.sampled_from(["", "broken"])),
    st.builds(messages.StoodStill, st.builds(partition, NUMBERS)),
    st.builds(messages.OwnedSeen, st.dictionaries(st.builds(partition, NUMBERS), HELD)),
    st.builds(messages.Released, st.lists(CLAIMS, max_size=3)),
    st.builds(messages.ConsumerSeen, st.sampled_from(ConsumerState), st.booleans()),
    st.builds(messages.DrainSeen, st.sampled_from(Drain), EPOCHS),
)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 5_000)), max_size=40), st.booleans())
def test_whatever_happens_decisions_fit_what_is_held(
    history: list[tuple[messages.Event, int]], leaves: bool
) -> None:
    now_ms, state = NOW, MemberState(settings=settings(), joined=True)
    events = [*history, *([(messages.LeaveAsked(), 0)] if leaves else [])]
    for event, passed_ms in events:
        now_ms += passed_ms
        state, drops = handle(state, event, now_ms)
        assert not {d.claim for d in drops if isinstance(d, messages.Drop)} & set(claims_of(state))
        assert state.waiting.keys() == wanted_partitions(state) - state.held.keys()
        wanted = wanted_partitions(state)
        for effect in decide(state, now_ms):
            match effect:
                case (
                    messages.SetState(claim=c)
                    | messages.Release(claim=c)
                    | messages.Restore(claim=c)
                ):
                    assert c in claims_of(state)
                    holding = state.held[c.partition]
                    kept = c.partition in wanted and not is_outdated(state, holding)
                    assert not (kept and holding.state is RUNNING)
                case messages.Acquire(partitions=asked):
                    assert state.joined
                    outdated = {p for p, h in state.held.items() if is_outdated(state, h)}
                    assert set(asked) <= wanted - (state.held.keys() - outdated)
                case messages.Leave():
                    assert not state.held
                case messages.Depart():
                    assert state.drain is Drain.FORCED or not (state.held or wanted)
                case _:
                    pass


@given(st.lists(st.tuples(EVENTS, st.integers(0, 5_000)), max_size=30), st.frozensets(NUMBERS))
@example(
    history=[
        (messages.Granted({claim(0, 1): RESTORING}), 0),
        (messages.StoodStill(partition(0)), 0),
    ],
    numbers=frozenset({0}),
)
def test_when_redis_and_consumer_do_their_part_the_target_is_reached(
    history: list[tuple[messages.Event, int]], numbers: frozenset[int]
) -> None:
    now_ms, state = NOW, MemberState(settings=settings(), joined=True)
    for event, passed_ms in history:
        now_ms += passed_ms
        state, _ = handle(state, event, now_ms)
    now_ms += UNSERVED_FOR_MS  # what was given up is tried again
    newest = messages.TargetSeen(row(*numbers, epoch=99, incarnation=9))
    state = after(
        state,
        messages.Joined(),
        messages.ConsumerSeen(ConsumerState.READY),
        messages.Renewed(now_ms),
        newest,
        messages.DrainSeen(Drain.NONE, Epoch(9, 99)),
        messages.Tick(),
        messages.TryAgain(),
        now_ms=now_ms,
    )
    for round_ in range(12):
        now_ms += GRACE_MS
        state = after(state, messages.Renewed(now_ms), messages.TryAgain(), now_ms=now_ms)
        for effect in decide(state, now_ms):
            state = carried_out(state, effect, 10 + round_, now_ms)
    assert {p.number for p in state.held} == numbers
    assert all(h.state is RUNNING for h in state.held.values())
    assert decide(state, now_ms) == []


def carried_out(state: MemberState, effect: object, counter: int, now_ms: int) -> MemberState:
    match effect:
        case messages.Acquire(partitions=asked):
            new = fence(counter, max(1, state.incarnation))
            granted = messages.Granted(dict.fromkeys((Claim(p, new) for p in asked), RESTORING))
            return after(state, granted, now_ms=now_ms)
        case messages.Restore(claim=c):
            return after(restore_ordered(state, c), messages.RestoreEnded(c), now_ms=now_ms)
        case messages.Release(claim=c):
            return after(state, messages.Released([c]), now_ms=now_ms)
        case messages.SetState(claim=c, state=new):
            owned = {p: Held(fence=h.fence, state=h.state) for p, h in state.held.items()}
            owned[c.partition] = Held(fence=c.fence, state=new)
            return after(state, messages.OwnedSeen(owned), now_ms=now_ms)
        case _:
            return state
