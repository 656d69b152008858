"""Works on all replicas of one agent, in threads of its own: what to do is decided by `core`.

A few threads take turns. One more waits for new entries in the changelogs of all replicas that have
nothing to do, so that a quiet group costs nothing.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from agent.replicas import core
from agent.replicas.core import Action, Failure, News, Replicas, Turn
from agent.replicas.replica import ReplicaNews
from agent.replicas.work import Work
from agent.state.errors import StateError, StateLost
from agent.state.files import replicas_in
from agent.store.door import SPARE_S, StoreUnavailable
from agent.store.group import GroupStore
from assignment.member.messages import RestoreEnded
from assignment.member.replicas import Wanted
from assignment.types import Claim, Partition, ReplicaReport

THREADS = 2  # restoring waits for disk and Redis; more would take the consumer's cores
TURN_MS = 100  # then the next replica has its turn
KEEP_UNWANTED_MS = 600_000  # a member that is given a partition again within this has its replica
WATCH_MS = 1_000  # a replica that caught up while the watcher waits is watched after this at last
GATHER_MS = 50  # commits that come one after the other are read together
CHECK_EVERY_MS = 5_000  # whether a Redis that lost writes committed other things than the replicas
CLOSE_S = 0.5  # for each thread; what is left half done is found and thrown away

Deliver = Callable[[RestoreEnded | ReplicaNews | BaseException], None]


class ReplicaManager:
    def __init__(
        self,
        store: GroupStore,
        state_dir: Path,
        deliver: Deliver,
        clock: Callable[[], int],
        keep_unwanted_ms: int = KEEP_UNWANTED_MS,
        *,
        quick: GroupStore,
    ) -> None:
        """`store` is for the workers alone: an answer of theirs may take long. While nothing is
        restored it has no connection, for a server has a limit of them. `quick`: the agent's own.
        """
        self._store, self._quick = store, quick
        self._state_dir = state_dir
        self._deliver = deliver
        self._clock = clock
        self._replicas = Replicas(keep_unwanted_ms=keep_unwanted_ms)
        self._works: dict[Partition, Work] = {}
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._workers: list[threading.Thread] = []
        self._watcher: threading.Thread | None = None
        self._next_check_ms = 0

    # --- what the loop says

    def order(self, claim: Claim) -> None:
        """Bring it to what is committed from now on, and deliver a RestoreEnded."""
        self._do(partial(core.order, claim=claim))

    def want(self, wanted: Wanted) -> None:
        self._do(partial(core.want, wanted=wanted, now_ms=self._clock()))

    def find_left_over(self) -> None:
        """Replicas of an agent before this one: of use when wanted soon. Raises StateError."""
        found = replicas_in(self._state_dir, self._store.group)
        self._do(partial(core.set_aside, partitions=found, now_ms=self._clock()))

    def reports(self) -> dict[Partition, ReplicaReport]:
        return self._replicas.reports(self._clock())

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        for worker in self._workers:
            worker.join(CLOSE_S)

    # --- steps of the core

    def _do(self, step: Callable[[Replicas], Replicas]) -> None:
        with self._changed:
            self._replicas = step(self._replicas)
            self._changed.notify_all()
            self._wake()

    def _heard(self, step: Callable[[Replicas], tuple[Replicas, News]]) -> News:
        with self._changed:
            self._replicas, news = step(self._replicas)
        return news

    def _wake(self) -> None:
        """Under the lock: the threads that there is something for."""
        if self._replicas.is_waiting and len(self._workers) < THREADS:
            self._workers.append(self._thread("replicas", self._work))
        if self._replicas.of and self._watcher is None:
            self._watcher = self._thread("changelogs", self._watch)

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._until_bug, args=(work,), name=name, daemon=True)
        thread.start()
        return thread

    def _until_bug(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # the loop must hear of it and end
            if not self._closed.is_set():
                self._deliver(error)

    # --- the workers

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._changed.wait_for(self._is_called, SPARE_S):
                    if self._replicas.is_resting:
                        self._store.close()  # whoever needs it again connects anew
                if self._closed.is_set():
                    return
                turn = self._taken()
            if turn is not None:
                self._work_on(turn)

    def _is_called(self) -> bool:
        return self._replicas.is_waiting or self._closed.is_set()

    def _taken(self) -> Turn | None:
        self._replicas, turn = core.take_turn(self._replicas)
        return turn

    def _work_on(self, turn: Turn) -> None:
        try:
            news = self._carried_out(turn)
        except (StateError, StoreUnavailable) as error:
            step = partial(core.fail, failure=_failure(error), now_ms=self._clock())
            news = self._heard(partial(step, partition=turn.partition))
        self._do(partial(core.end_turn, partition=turn.partition))
        self._tell(news)

    def _carried_out(self, turn: Turn) -> News:
        if turn.action is Action.NOTHING:
            return ()
        work = self._works.setdefault(turn.partition, self._new_work(turn.partition))
        match turn.action:
            case Action.GO_ON:
                return self._gone_on(turn, work)
            case Action.REMOVE:
                work.remove()
                self._do(partial(core.forget, partition=turn.partition))
                if turn.partition not in self._replicas.of:
                    del self._works[turn.partition]
            case Action.REST:
                work.rest()
        return ()

    def _gone_on(self, turn: Turn, work: Work) -> News:
        until_ms = self._clock() + TURN_MS
        place = work.go_on(
            turn.claim,
            lambda: self._clock() >= until_ms or self._closed.is_set(),
            lambda progress: self._tell(
                self._heard(
                    lambda replicas: core.note(replicas, turn.partition, progress, self._clock())
                )
            ),
        )
        if place is None:
            return ()
        news = self._heard(
            lambda replicas: core.arrive(
                replicas, turn.partition, place, work.serves, self._clock()
            )
        )
        handed_over = any(isinstance(one, RestoreEnded) for one in news)
        if handed_over or len(self._replicas.of) > core.OPEN_MAX:
            work.rest()
        return news

    def _new_work(self, partition: Partition) -> Work:
        return Work(self._store, self._state_dir, partition)

    def _tell(self, news: News) -> None:
        for one in news:
            self._deliver(one)

    # --- the watcher

    def _watch(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                tailed = self._replicas.tailed()
                if not tailed:
                    self._changed.wait(self._idle_s())
            if tailed:
                self._wait_for_changes(tailed)
            self._do(partial(core.due, now_ms=self._clock()))

    def _wait_for_changes(self, tailed: Mapping[Partition, str]) -> None:
        try:
            changed = self._quick.wait_changelogs(tailed, WATCH_MS)
            changed |= self._checked(tailed)
        except StoreUnavailable:
            self._closed.wait(WATCH_MS / 1_000)
            return
        if changed:
            self._closed.wait(GATHER_MS / 1_000)
            self._do(partial(core.follow, changed=changed))

    def _checked(self, tailed: Mapping[Partition, str]) -> set[Partition]:
        """Now and then: replicas that do not stand at the committed offset, whatever came."""
        if self._clock() < self._next_check_ms:
            return set()
        self._next_check_ms = self._clock() + CHECK_EVERY_MS
        return self._replicas.elsewhere(self._quick.committed(sorted(tailed)))

    def _idle_s(self) -> float | None:
        """Until something is due; None: whenever there is news."""
        due_ms = self._replicas.due_ms()
        return None if due_ms is None else max(0.001, (due_ms - self._clock()) / 1_000)


def _failure(error: StateError | StoreUnavailable) -> Failure:
    state = isinstance(error, StateError)
    return Failure(why=str(error), state=state, full=state and not isinstance(error, StateLost))
