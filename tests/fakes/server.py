"""The fake server: a settable clock, runs that end, lost writes, failovers, what it says of itself.

It runs commands and the real scripts (lua.py) as a Redis does that has one client at a time.
"""

from copy import copy
from typing import Any

from redis.exceptions import ResponseError

from assignment.scripts.values import Arguments, Raw
from tests.fakes.commands import COMMANDS, WRITES, reads
from tests.fakes.keyspace import Call, Journal, Keyspace, demand_count, known_name
from tests.fakes.lua import INTERPRETER, text_of
from tests.fakes.streams import between
from tests.fakes.values import Entry, Hash, Id, Reply, Stream, as_bytes, id_text, number

START_MS = 1_700_000_000_000
LOADING = "LOADING Redis is loading the dataset in memory"
MASTERDOWN = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
READONLY = "READONLY You can't write against a read only replica."
UNBLOCKED = (
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
)
ALWAYS_ANSWERED = (b"INFO", b"CONFIG")


class FakeRedis(Keyspace):
    """The server at one address: its data, its clock, its run. Any number of FakeDoors lead to it.

    `connections` counts failovers: a door that was connected before leads to `former`, the old
    primary, until it drops its connection; None: that one is gone.
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        super().__init__(now_ms)
        self.down = False
        self.role = "master"
        self.connections = 0
        self.former: FakeRedis | None = None
        self._journal = Journal()
        self._pending: list[Call] = []  # of the transaction that runs
        self._refusal, self._refuses_until_ms = "", 0
        self._names = 0
        self._runs_anew()

    def _name(self) -> str:
        self._names += 1
        return f"{self._names:040x}"

    def _runs_anew(self) -> None:
        self.run_id, self.replication_id, self.offset = self._name(), self._name(), 0
        self.replication_id_before, self.second_offset = "0" * 40, -1

    def advance(self, ms: int) -> None:
        """Also back: what expires follows, streams never go back."""
        self.now_ms += ms

    # --- faults

    @property
    def position(self) -> int:
        """How many transactions it has; to be gone back to."""
        return self._journal.position

    def restart(self, to: int | None = None) -> None:
        """Under a new run_id, with all it had, or only what it had at that position."""
        if to is not None and to < self.position:
            self.keys, self.expires = self._journal.back_to(to)
        self._runs_anew()

    def wipe(self) -> None:
        """Everything is lost, and it runs anew."""
        self.keys, self.expires = {}, {}
        self._journal = Journal(states=[(self.position, ({}, {}))])
        self._runs_anew()

    def fail_over(self, to: int | None = None, *, same_run: bool = False) -> None:
        """To a replica that had got to that position.

        `same_run`: to one that was the primary under this run_id before, so that only replication
        id and offset tell. The old primary answers READONLY until it `ends`.
        """
        self.former = copy(self)
        self.former.role, self.former._journal = "slave", Journal()
        self.former.former = None
        to = self.position if to is None else to
        reached = self.offset - self._journal.calls_after(to)
        self.keys, self.expires = self._journal.back_to(to)
        before = self.replication_id
        if not same_run:
            self.run_id = self._name()
        self.replication_id, self.replication_id_before = self._name(), before
        self.offset, self.second_offset = reached, reached + 1
        self.connections += 1

    def former_ends(self) -> None:
        """Whoever is connected to the old primary is cut off."""
        self.former = None

    def refuse(self, text: str, for_ms: int) -> None:
        """LOADING or MASTERDOWN, for a while."""
        self._refusal, self._refuses_until_ms = text, self.now_ms + for_ms

    @property
    def away(self) -> bool:
        """Whether it answers no command on data now."""
        return self.down or bool(self._refusal and self.now_ms < self._refuses_until_ms)

    # --- clients

    def run_script(self, name: str, keys: Any, args: Arguments) -> Raw:
        """What it answers to the script of that name."""
        if self._refusal:
            self._demand_ready(b"EVALSHA")
        try:
            return INTERPRETER.run(self, text_of(name), as_bytes(keys), as_bytes(args))
        finally:
            self._end_transaction()

    def ask(self, *command: str | bytes | int) -> Raw:
        try:
            return self.execute(as_bytes(command))
        finally:
            self._end_transaction()

    def above(self, stream: str, after: str, count: int) -> Raw:
        """What a read that waits answers at once."""
        if self.role != "master":
            raise ResponseError(UNBLOCKED)
        return self.ask("XRANGE", stream, f"({after}", "+", "COUNT", count)

    def execute(self, call: Call) -> Reply:
        """Keyspace.execute for a server, in one step: it is what a simulation does most."""
        name = call[0]
        command = COMMANDS.get(name)
        if command is None:
            return self.execute((known_name(name), *call[1:]))
        if self._refusal:
            self._demand_ready(name)
        if name in WRITES:
            if self.role != "master":
                raise ResponseError(READONLY)
            self._pending.append(call)
        try:
            return command(self, *call[1:])
        except TypeError as error:
            demand_count(call, error)
            raise

    def expired(self, key: bytes) -> None:
        super().expired(key)
        if self.role == "master":
            self._pending.append((b"DEL", key))

    def _demand_ready(self, name: bytes) -> None:
        if self.now_ms >= self._refuses_until_ms:
            self._refusal = ""
        elif name not in ALWAYS_ANSWERED:
            raise ResponseError(self._refusal)

    def _end_transaction(self) -> None:
        if self._pending:
            self.offset += len(self._pending)
            self._journal.note(self, self._pending)
            self._pending = []

    # --- short forms for tests

    def hash(self, key: str) -> Hash:
        """As it lies there, to be read or changed behind everybody's back; empty: none."""
        found = self.live(key.encode())
        return found if isinstance(found, dict) else {}

    def entries(self, key: str) -> list[Entry]:
        found = self.live(key.encode())
        return found.entries if isinstance(found, Stream) else []

    def entries_after(self, key: str, after: Id) -> list[Entry]:
        found = self.live(key.encode())
        return between(found, b"(" + id_text(after), b"+") if isinstance(found, Stream) else []

    def rows(self, key: str, after: Id = (0, 0)) -> list[Hash]:
        """The entries of a stream above that id, by name."""
        entries = self.entries_after(key, after)
        return [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries]


@reads
def eval_(db: FakeRedis, text: bytes, count: bytes, *rest: bytes) -> Reply:
    """A script's text. That of a script's name is run by `run_script`."""
    keys = number(count)
    return INTERPRETER.run(db, text.decode(), rest[:keys], rest[keys:])


# --- what it says of itself -----------------------------------------------------------------------


@reads
def time(db: FakeRedis) -> list[bytes]:
    return [b"%d" % (db.now_ms // 1_000), b"%d" % (db.now_ms % 1_000 * 1_000)]


@reads
def info(db: FakeRedis, *sections: bytes) -> bytes:
    return b"".join(SECTIONS[name](db).encode() for name in sections or SECTIONS)


def _server(db: FakeRedis) -> str:
    version = ".".join(map(str, db.version))
    return f"# Server\r\nredis_version:{version}\r\nrun_id:{db.run_id}\r\n"


def _replication(db: FakeRedis) -> str:
    return (
        f"# Replication\r\nrole:{db.role}\r\nconnected_slaves:0\r\n"
        f"master_replid:{db.replication_id}\r\nmaster_replid2:{db.replication_id_before}\r\n"
        f"master_repl_offset:{db.offset}\r\nsecond_repl_offset:{db.second_offset}\r\n"
    )


SECTIONS = {b"server": _server, b"replication": _replication}


@reads
def config(db: FakeRedis, what: bytes, name: bytes) -> list[bytes]:
    return [name, b"yes"] if (what.upper(), name) == (b"GET", b"appendonly") else []
