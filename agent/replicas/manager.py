"""Works on all replicas of one agent, in threads of its own.

Many replicas share few threads: each has a turn, what was acquired first. One more thread waits for
new entries in the changelogs of all replicas that have nothing to do, so that a quiet group costs
nothing. Whoever is not wanted any more keeps its file for a while, in case it comes back.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.replicas.news import ReplicaNews
from agent.replicas.replica import Replica
from agent.replicas.work import Place, Work
from agent.state import Progress, StateError, StateLost, replicas_in
from agent.state.restoring import RestoreResult
from agent.store import GroupStore, StoreUnavailable
from assignment.member import Wanted, ready_learners
from assignment.types import Claim, Partition, ReplicaReport, Role

THREADS = 2  # restoring waits for disk and Redis; more would take the consumer's cores
TURN_MS = 100  # then the next replica has its turn
KEEP_UNWANTED_MS = 600_000  # a member that is given a partition again within this has its replica
WATCH_MS = 1_000  # a replica that caught up while the watcher waits is watched after this at last
GATHER_MS = 50  # commits that come one after the other are read together
CHECK_EVERY_MS = 5_000  # whether a Redis that lost writes committed other things than the replicas
OPEN_MAX = 256  # files at once, two each for LMDB; of more replicas each is open for its turns
CLOSE_S = 0.5  # for each thread; what is left half done is found and thrown away

Deliver = Callable[[RestoreResult | ReplicaNews | BaseException], None]


class ReplicaManager:
    def __init__(
        self,
        store: GroupStore,
        state_dir: Path,
        deliver: Deliver,
        clock: Callable[[], int],
        keep_unwanted_ms: int = KEEP_UNWANTED_MS,
    ) -> None:
        """`store` is for these threads alone: an answer of theirs may take long."""
        self._store = store
        self._state_dir = state_dir
        self._deliver = deliver
        self._clock = clock
        self._keep_unwanted_ms = keep_unwanted_ms
        self._wanted = Wanted()
        self._replicas: dict[Partition, Replica] = {}
        self._first: deque[Replica] = deque()  # acquired
        self._others: deque[Replica] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._workers: list[threading.Thread] = []
        self._watcher: threading.Thread | None = None
        self._next_check_ms = 0

    # --- what the loop says

    def order(self, claim: Claim) -> None:
        """Bring it to what is committed from now on, and deliver a RestoreResult."""
        with self._changed:
            replica = self._replica(claim.partition)
            replica.claim, replica.retry_ms = claim, None
            replica.unwanted_since_ms = None
            self._enqueue(replica)

    def want(self, wanted: Wanted) -> None:
        with self._changed:
            self._wanted = wanted
            for partition, role in wanted.replicas.items():
                self._want_one(self._replica(partition), role)
            for partition in sorted(wanted.held):
                self._hold(self._replica(partition))
            for partition in sorted(self._replicas.keys() - wanted.replicas.keys() - wanted.held):
                self._want_no_more(self._replicas[partition])
            self._call()

    def find_left_over(self) -> None:
        """Replicas of an agent before this one: of use when wanted soon. Raises StateError."""
        with self._changed:
            for partition in replicas_in(self._state_dir, self._store.group):
                self._want_no_more(self._replica(partition))

    def reports(self) -> dict[Partition, ReplicaReport]:
        now_ms = self._clock()
        with self._changed:
            said = ((p, s.report(now_ms)) for p, s in sorted(self._replicas.items()) if s.role)
            return {partition: report for partition, report in said if report}

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        for worker in self._workers:
            worker.join(CLOSE_S)

    # --- under the lock

    def _replica(self, partition: Partition) -> Replica:
        if partition not in self._replicas:
            self._replicas[partition] = Replica(partition, self._new_work(partition))
            self._start_watching()
        return self._replicas[partition]

    def _new_work(self, partition: Partition) -> Work:
        return Work(self._store, self._state_dir, partition)

    def _want_one(self, replica: Replica, role: Role) -> None:
        if replica.stateless and self._wanted.stateful:
            replica.hand_over()
        is_new = replica.role is None
        replica.learner = role is Role.LEARNER or (role is Role.OWNER and replica.learner)
        replica.role, replica.claim, replica.held = role, None, False
        replica.unwanted_since_ms = None
        if not self._wanted.stateful:
            replica.lack_nothing()
        elif is_new:
            self._enqueue(replica)

    def _hold(self, replica: Replica) -> None:
        replica.role, replica.held, replica.unwanted_since_ms = None, True, None

    def _want_no_more(self, replica: Replica) -> None:
        if replica.unwanted_since_ms is None:
            replica.hand_over()
            replica.held, replica.unwanted_since_ms = False, self._clock()
            self._enqueue(replica)

    def _call(self) -> None:
        """Which learners are ready as far as others are concerned."""
        learners = {p: s for p, s in self._replicas.items() if s.role is Role.LEARNER}
        called = ready_learners(
            {p: s.caught_up for p, s in learners.items()},
            {p for p, s in learners.items() if s.called},
            eager=self._wanted.eager,
        )
        for partition, replica in learners.items():
            replica.called = partition in called

    def _enqueue(self, replica: Replica) -> None:
        if replica.running:
            replica.asked_again = True
            return
        replica.queued = True
        (self._first if replica.claim else self._others).append(replica)
        self._changed.notify_all()
        if len(self._workers) < THREADS:
            self._workers.append(self._thread("replicas", self._work))

    def _start_watching(self) -> None:
        if self._watcher is None:
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
        while (replica := self._next()) is not None:
            self._work_on(replica)

    def _work_on(self, replica: Replica) -> None:
        news = self._turn(replica)
        with self._changed:
            replica.running = False
            if replica.asked_again or (replica.is_needed and self._is_under_way(replica)):
                replica.asked_again = False
                self._enqueue(replica)
            self._call()
            self._changed.notify_all()
        for one in news:
            self._deliver(one)

    def _next(self) -> Replica | None:
        with self._changed:
            while not self._closed.is_set():
                if replica := self._first_queued():
                    return replica
                self._changed.wait()
        return None

    def _first_queued(self) -> Replica | None:
        for waiting in (self._first, self._others):
            while waiting:
                replica = waiting.popleft()
                if replica.queued:
                    replica.queued, replica.running = False, True
                    return replica
        return None

    @staticmethod
    def _is_under_way(replica: Replica) -> bool:
        """Not arrived, or not for what was acquired meanwhile; not waiting after a failure."""
        arrived = replica.place is not None and replica.claim is None
        return not arrived and replica.retry_ms is None

    def _turn(self, replica: Replica) -> list[RestoreResult | ReplicaNews]:
        with self._changed:
            claim, needed, held = replica.claim, replica.is_needed, replica.held
            remove, replica.to_be_removed = replica.to_be_removed, False
        until_ms = self._clock() + TURN_MS
        try:
            if needed:
                place = replica.work.go_on(
                    claim,
                    lambda: self._clock() >= until_ms or self._closed.is_set(),
                    lambda progress: self._note(replica, progress),
                )
                return self._arrived(replica, place) if place else []
            if not held and remove:
                self._remove(replica)
            elif not held:  # what is held goes on from here as soon as it is ordered
                replica.work.rest()
        except (StateError, StoreUnavailable) as error:
            return self._failed(replica, error)
        return []

    def _note(self, replica: Replica, progress: Progress) -> None:
        with self._changed:
            lag = self._wanted.acceptable_lag_records
            # Unwanted in the middle of a turn: nothing of it may count when it is wanted again.
            if replica.is_needed and replica.take(progress, lag, self._clock()):
                self._call()
                self._tell(replica)

    def _arrived(self, replica: Replica, place: Place) -> list[RestoreResult | ReplicaNews]:
        with self._changed:
            if replica.is_needed and replica.arrive(place, self._clock()):
                self._call()
                self._tell(replica)
            claim = replica.claim
            handed_over = claim is not None and replica.work.serves == claim
            if handed_over:
                replica.hand_over()
                replica.held = True
        if handed_over or len(self._replicas) > OPEN_MAX:
            replica.work.rest()
        return [RestoreResult(claim)] if claim and handed_over else []

    def _tell(self, replica: Replica) -> None:
        if replica.role is not None:
            self._deliver(ReplicaNews(replica.partition, str(replica.role)))

    def _failed(
        self, replica: Replica, error: StateError | StoreUnavailable
    ) -> list[RestoreResult | ReplicaNews]:
        with self._changed:
            if isinstance(error, StateError) and not isinstance(error, StateLost):
                self._make_room()
            if not replica.is_needed:
                return []
            is_new = replica.why != str(error)
            replica.fail(str(error), self._clock())
            if isinstance(error, StateError):
                replica.fall_behind()
            if claim := replica.claim:
                replica.claim = None
                return [RestoreResult(claim, str(error), isinstance(error, StateError))]
            if replica.role is None or not is_new:
                return []
            return [ReplicaNews(replica.partition, str(replica.role), str(error))]

    def _make_room(self) -> None:
        """The disk refused: what nobody wants goes at once."""
        for replica in self._replicas.values():
            if replica.unwanted_since_ms is not None:
                replica.unwanted_since_ms = self._clock() - self._keep_unwanted_ms

    def _remove(self, replica: Replica) -> None:
        replica.work.remove()
        with self._changed:
            if not replica.is_needed and not replica.held and not replica.asked_again:
                self._replicas.pop(replica.partition, None)

    # --- the watcher

    def _watch(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                tailed = self._tailed()
                if not tailed:
                    self._changed.wait(self._idle_s())
            if tailed:
                self._wait_for_changes(tailed)
            self._do_what_is_due()

    def _tailed(self) -> dict[Partition, str]:
        """The replicas that have nothing to do, and after which entry something new comes."""
        return {
            p: s.place.changelog_id for p, s in self._replicas.items() if s.is_tailed and s.place
        }

    def _wait_for_changes(self, tailed: Mapping[Partition, str]) -> None:
        try:
            changed = self._store.wait_changelogs(tailed, WATCH_MS)
            changed |= self._checked(tailed)
        except StoreUnavailable:
            self._closed.wait(WATCH_MS / 1_000)
            return
        if not changed:
            return
        self._closed.wait(GATHER_MS / 1_000)
        with self._changed:
            for partition in sorted(changed & self._replicas.keys()):
                if self._replicas[partition].is_tailed:
                    self._enqueue(self._replicas[partition])

    def _checked(self, tailed: Mapping[Partition, str]) -> set[Partition]:
        """Now and then: replicas that do not stand at the committed offset, whatever came."""
        if self._clock() < self._next_check_ms:
            return set()
        self._next_check_ms = self._clock() + CHECK_EVERY_MS
        committed = self._store.committed(sorted(tailed))
        with self._changed:
            return {
                p
                for p, s in self._replicas.items()
                if p in committed and s.place and s.place.offset != committed[p]
            }

    def _do_what_is_due(self) -> None:
        now_ms = self._clock()
        with self._changed:
            for replica in self._replicas.values():
                if replica.retry_ms is not None and now_ms >= replica.retry_ms:
                    replica.retry_ms = None
                    if replica.is_needed:
                        self._enqueue(replica)
                since_ms = replica.unwanted_since_ms
                if since_ms is not None and now_ms - since_ms >= self._keep_unwanted_ms:
                    replica.unwanted_since_ms = now_ms  # once more then, should it fail
                    replica.to_be_removed = True
                    self._enqueue(replica)

    def _idle_s(self) -> float | None:
        """Until something is due; None: whenever there is news."""
        now_ms = self._clock()
        dues = [s.retry_ms for s in self._replicas.values() if s.retry_ms is not None]
        dues += [
            s.unwanted_since_ms + self._keep_unwanted_ms
            for s in self._replicas.values()
            if s.unwanted_since_ms is not None
        ]
        return max(0.001, (min(dues) - now_ms) / 1_000) if dues else None
