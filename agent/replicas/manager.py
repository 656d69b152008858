"""Works on all copies of one agent, in threads of its own.

Many copies share few threads: each has a turn, what was acquired first. One more thread waits for
new entries in the changelogs of all copies that have nothing to do, so that a quiet group costs
nothing. Whoever is not wanted any more keeps its file for a while, in case it comes back.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.replicas.news import CopyNews
from agent.replicas.replica import Standing
from agent.replicas.work import Place, Work
from agent.state import Progress, StateError, StateLost, copies_in
from agent.state.restoring import RestoreResult
from agent.store import GroupStore, StoreUnavailable
from assignment.member import Wanted, ready_learners
from assignment.types import Claim, CopyReport, Partition, Role

THREADS = 2  # restoring waits for disk and Redis; more would take the consumer's cores
TURN_MS = 100  # then the next copy has its turn
KEEP_UNWANTED_MS = 600_000  # a member that is given a partition again within this has its copy
WATCH_MS = 1_000  # a copy that caught up while the watcher waits is watched after this at last
GATHER_MS = 50  # commits that come one after the other are read together
CHECK_EVERY_MS = 5_000  # whether a Redis that lost writes committed other things than the copies
OPEN_MAX = 256  # files at once, two each for LMDB; of more copies each is open for its turns
CLOSE_S = 0.5  # for each thread; what is left half done is found and thrown away

Deliver = Callable[[RestoreResult | CopyNews | BaseException], None]


class Copies:
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
        self._copies: dict[Partition, Standing] = {}
        self._first: deque[Standing] = deque()  # acquired
        self._others: deque[Standing] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._workers: list[threading.Thread] = []
        self._watcher: threading.Thread | None = None
        self._next_check_ms = 0

    # --- what the loop says

    def order(self, claim: Claim) -> None:
        """Bring it to what is committed from now on, and deliver a RestoreResult."""
        with self._changed:
            standing = self._standing(claim.partition)
            standing.claim, standing.retry_ms = claim, None
            standing.unwanted_since_ms = None
            self._enqueue(standing)

    def want(self, wanted: Wanted) -> None:
        with self._changed:
            self._wanted = wanted
            for partition, role in wanted.copies.items():
                self._want_one(self._standing(partition), role)
            for partition in sorted(wanted.held):
                self._hold(self._standing(partition))
            for partition in sorted(self._copies.keys() - wanted.copies.keys() - wanted.held):
                self._want_no_more(self._copies[partition])
            self._call()

    def find_left_over(self) -> None:
        """Copies of an agent before this one: of use when wanted soon. Raises StateError."""
        with self._changed:
            for partition in copies_in(self._state_dir, self._store.group):
                self._want_no_more(self._standing(partition))

    def reports(self) -> dict[Partition, CopyReport]:
        now_ms = self._clock()
        with self._changed:
            said = ((p, s.report(now_ms)) for p, s in sorted(self._copies.items()) if s.role)
            return {partition: report for partition, report in said if report}

    def close(self) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        for worker in self._workers:
            worker.join(CLOSE_S)

    # --- under the lock

    def _standing(self, partition: Partition) -> Standing:
        if partition not in self._copies:
            self._copies[partition] = Standing(partition, self._new_work(partition))
            self._start_watching()
        return self._copies[partition]

    def _new_work(self, partition: Partition) -> Work:
        return Work(self._store, self._state_dir, partition)

    def _want_one(self, standing: Standing, role: Role) -> None:
        if standing.stateless and self._wanted.stateful:
            standing.hand_over()
        is_new = standing.role is None
        standing.learner = role is Role.LEARNER or (role is Role.OWNER and standing.learner)
        standing.role, standing.claim, standing.held = role, None, False
        standing.unwanted_since_ms = None
        if not self._wanted.stateful:
            standing.lack_nothing()
        elif is_new:
            self._enqueue(standing)

    def _hold(self, standing: Standing) -> None:
        standing.role, standing.held, standing.unwanted_since_ms = None, True, None

    def _want_no_more(self, standing: Standing) -> None:
        if standing.unwanted_since_ms is None:
            standing.hand_over()
            standing.held, standing.unwanted_since_ms = False, self._clock()
            self._enqueue(standing)

    def _call(self) -> None:
        """Which learners are ready as far as others are concerned."""
        learners = {p: s for p, s in self._copies.items() if s.role is Role.LEARNER}
        called = ready_learners(
            {p: s.caught_up for p, s in learners.items()},
            {p for p, s in learners.items() if s.called},
            eager=self._wanted.eager,
        )
        for partition, standing in learners.items():
            standing.called = partition in called

    def _enqueue(self, standing: Standing) -> None:
        if standing.running:
            standing.asked_again = True
            return
        standing.queued = True
        (self._first if standing.claim else self._others).append(standing)
        self._changed.notify_all()
        if len(self._workers) < THREADS:
            self._workers.append(self._thread("copies", self._work))

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
        while (standing := self._next()) is not None:
            self._work_on(standing)

    def _work_on(self, standing: Standing) -> None:
        news = self._turn(standing)
        with self._changed:
            standing.running = False
            if standing.asked_again or (standing.is_needed and self._is_under_way(standing)):
                standing.asked_again = False
                self._enqueue(standing)
            self._call()
            self._changed.notify_all()
        for one in news:
            self._deliver(one)

    def _next(self) -> Standing | None:
        with self._changed:
            while not self._closed.is_set():
                if standing := self._first_queued():
                    return standing
                self._changed.wait()
        return None

    def _first_queued(self) -> Standing | None:
        for waiting in (self._first, self._others):
            while waiting:
                standing = waiting.popleft()
                if standing.queued:
                    standing.queued, standing.running = False, True
                    return standing
        return None

    @staticmethod
    def _is_under_way(standing: Standing) -> bool:
        """Not arrived, or not for what was acquired meanwhile; not waiting after a failure."""
        arrived = standing.place is not None and standing.claim is None
        return not arrived and standing.retry_ms is None

    def _turn(self, standing: Standing) -> list[RestoreResult | CopyNews]:
        with self._changed:
            claim, needed, held = standing.claim, standing.is_needed, standing.held
            remove, standing.to_be_removed = standing.to_be_removed, False
        until_ms = self._clock() + TURN_MS
        try:
            if needed:
                place = standing.work.go_on(
                    claim,
                    lambda: self._clock() >= until_ms or self._closed.is_set(),
                    lambda progress: self._note(standing, progress),
                )
                return self._arrived(standing, place) if place else []
            if not held and remove:
                self._remove(standing)
            elif not held:  # what is held goes on from here as soon as it is ordered
                standing.work.rest()
        except (StateError, StoreUnavailable) as error:
            return self._failed(standing, error)
        return []

    def _note(self, standing: Standing, progress: Progress) -> None:
        with self._changed:
            lag = self._wanted.acceptable_lag_records
            # Unwanted in the middle of a turn: nothing of it may count when it is wanted again.
            if standing.is_needed and standing.take(progress, lag, self._clock()):
                self._call()
                self._tell(standing)

    def _arrived(self, standing: Standing, place: Place) -> list[RestoreResult | CopyNews]:
        with self._changed:
            if standing.is_needed and standing.arrive(place, self._clock()):
                self._call()
                self._tell(standing)
            claim = standing.claim
            handed_over = claim is not None and standing.work.serves == claim
            if handed_over:
                standing.hand_over()
                standing.held = True
        if handed_over or len(self._copies) > OPEN_MAX:
            standing.work.rest()
        return [RestoreResult(claim)] if claim and handed_over else []

    def _tell(self, standing: Standing) -> None:
        if standing.role is not None:
            self._deliver(CopyNews(standing.partition, str(standing.role)))

    def _failed(
        self, standing: Standing, error: StateError | StoreUnavailable
    ) -> list[RestoreResult | CopyNews]:
        with self._changed:
            if isinstance(error, StateError) and not isinstance(error, StateLost):
                self._make_room()
            if not standing.is_needed:
                return []
            is_new = standing.why != str(error)
            standing.fail(str(error), self._clock())
            if isinstance(error, StateError):
                standing.fall_behind()
            if claim := standing.claim:
                standing.claim = None
                return [RestoreResult(claim, str(error))]
            if standing.role is None or not is_new:
                return []
            return [CopyNews(standing.partition, str(standing.role), str(error))]

    def _make_room(self) -> None:
        """The disk refused: what nobody wants goes at once."""
        for standing in self._copies.values():
            if standing.unwanted_since_ms is not None:
                standing.unwanted_since_ms = self._clock() - self._keep_unwanted_ms

    def _remove(self, standing: Standing) -> None:
        standing.work.remove()
        with self._changed:
            if not standing.is_needed and not standing.held and not standing.asked_again:
                self._copies.pop(standing.partition, None)

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
        """The copies that have nothing to do, and after which entry something new comes."""
        return {p: s.place.changelog_id for p, s in self._copies.items() if s.is_tailed and s.place}

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
            for partition in sorted(changed & self._copies.keys()):
                if self._copies[partition].is_tailed:
                    self._enqueue(self._copies[partition])

    def _checked(self, tailed: Mapping[Partition, str]) -> set[Partition]:
        """Now and then: copies that do not stand at the committed offset, whatever came."""
        if self._clock() < self._next_check_ms:
            return set()
        self._next_check_ms = self._clock() + CHECK_EVERY_MS
        committed = self._store.committed(sorted(tailed))
        with self._changed:
            return {
                p
                for p, s in self._copies.items()
                if p in committed and s.place and s.place.offset != committed[p]
            }

    def _do_what_is_due(self) -> None:
        now_ms = self._clock()
        with self._changed:
            for standing in self._copies.values():
                if standing.retry_ms is not None and now_ms >= standing.retry_ms:
                    standing.retry_ms = None
                    if standing.is_needed:
                        self._enqueue(standing)
                since_ms = standing.unwanted_since_ms
                if since_ms is not None and now_ms - since_ms >= self._keep_unwanted_ms:
                    standing.unwanted_since_ms = now_ms  # once more then, should it fail
                    standing.to_be_removed = True
                    self._enqueue(standing)

    def _idle_s(self) -> float | None:
        """Until something is due; None: whenever there is news."""
        now_ms = self._clock()
        dues = [s.retry_ms for s in self._copies.values() if s.retry_ms is not None]
        dues += [
            s.unwanted_since_ms + self._keep_unwanted_ms
            for s in self._copies.values()
            if s.unwanted_since_ms is not None
        ]
        return max(0.001, (min(dues) - now_ms) / 1_000) if dues else None
