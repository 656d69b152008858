"""The fake server answers commands and scripts as real servers do, refusals included."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ResponseError

from agent.store.door import RedisDoor
from tests.contract.conftest import SERVERS
from tests.fakes import FakeRedis

COMMANDS_PER_SEED, SEEDS = 400, range(5)
VALUES = (b"a", b"b", b"7", b"-3", b"0007", b"9223372036854775807", b"", b"\xff\x00", b"x" * 60)
FIELDS = (b"f", b"g", b"h", b"long " * 12)
SCORES = (b"1", b"2", b"2", b"3.5", b"1700000000000", b"-inf", b"x")
IDS = (*(b"%d-%d" % (ms, seq) for ms in (0, 1, 2, 5, 9) for seq in (0, 1, 7)), b"4", b"x")
XINFO = (b"length", b"last-generated-id", b"entries-added", b"groups")  # what scripts read
ALIKE = 20  # letters of a refusal; further on the words differ between versions
Ask = Callable[..., Any]


@pytest.fixture(params=SERVERS)
def real(request: pytest.FixtureRequest) -> Ask:
    """The answer, or the refusal's text; a client that is not redis-py's own takes none apart."""
    door = request.getfixturevalue(request.param)
    assert isinstance(door, RedisDoor)
    return lambda *command: answer(door._client.execute_command, *command)


@pytest.fixture
def fake(real: Ask) -> Ask:
    server = FakeRedis()
    version = real("INFO", "server").partition(b"redis_version:")[2].partition(b"\r")[0]
    server.version = tuple(map(int, version.split(b".")))
    return lambda *command: answer(server.ask, *command)


def answer(ask: Ask, *command: Any) -> Any:
    try:
        return ask(*command)
    except ResponseError as error:
        return "refused: " + str(error).removeprefix("ERR ")


class Commands:
    """Draws one command after the other, over four keys of each kind and some of the wrong one."""

    def __init__(self, rng: random.Random, prefix: str) -> None:
        self.rng, self.prefix = rng, prefix
        self.kinds = (self.string, self.key, self.hash, self.scores, self.stream)

    def draw(self) -> list[Any]:
        return self.rng.choice(self.kinds)()

    def name(self, kind: str) -> str:
        kind = kind if self.rng.random() < 0.95 else self.rng.choice("thzx")
        return f"{self.prefix}:{kind}{self.rng.randrange(2)}"

    def one(self, *choices: list[Any]) -> list[Any]:
        return self.rng.choice(choices)

    def string(self) -> list[Any]:
        key, value = self.name("t"), self.rng.choice(VALUES)
        return self.one(
            ["SET", key, value], ["set", key, value, "PX", 60_000], ["SET", key, value, "PX", 0],
            ["SET", key, value, "PXAT", 4_000_000_000_000], ["SET", key, value, "PXAT", 1_000],
            ["SET", key, value, "PX"], ["SET", key, value, "NONSENSE"], ["GET", key], ["GET"],
            ["GET", key, key], ["MGET", key, self.name("t")],
        )  # fmt: skip

    def key(self) -> list[Any]:
        key = self.name(self.rng.choice("thzx"))
        return self.one(
            ["DEL", key, self.name("t")], ["EXISTS", key, key], ["NONSENSE", key],
        )  # fmt: skip

    def hash(self) -> list[Any]:
        key, name, value = self.name("h"), self.rng.choice(FIELDS), self.rng.choice(VALUES)
        return self.one(
            ["HSET", key, name, value], ["HSET", key, name, value, b"f", b"1"],
            ["HSET", key, name, value, b"f"], ["HSETNX", key, name, value], ["HGET", key, name],
            ["HMGET", key, name, b"f", b"none"], ["HGETALL", key], ["HKEYS", key],
            ["HLEN", key], ["HEXISTS", key, name], ["HINCRBY", key, name, value], ["HMGET", key],
            ["HDEL", key, name], ["HDEL", key, *FIELDS],
        )  # fmt: skip

    def scores(self) -> list[Any]:
        key, score = self.name("z"), self.rng.choice(SCORES)
        member, first, last = self.rng.choice(FIELDS), *self.rng.choices(range(-4, 5), k=2)
        return self.one(
            ["ZADD", key, score, member], ["ZADD", key, score], ["ZSCORE", key, member],
            ["ZREM", key, member],
            ["ZRANGE", key, first, last], ["ZRANGE", key, first, last, "WITHSCORES"],
            ["ZRANGEBYSCORE", key, "-inf", "(2"], ["ZRANGEBYSCORE", key, 2, "+inf", "WITHSCORES"],
        )  # fmt: skip

    def stream(self) -> list[Any]:
        key, low, high = self.name("x"), self.rng.choice(IDS), self.rng.choice(IDS)
        size, group = self.rng.randint(0, 4), self.rng.choice((b"g", b"k"))
        return self.one(
            ["XADD", key, low, b"n", b"v"], ["XADD", key, low, b"n", b"v"],
            ["XADD", key, "MAXLEN", size, low, b"n", b"v"], ["XADD", key, low, b"n"],
            ["XLEN", key], ["XRANGE", key, "-", "+"],
            ["XRANGE", key, low, high], ["XRANGE", key, b"(" + low, "+", "COUNT", size],
            ["XREVRANGE", key, "+", "-", "COUNT", 1], ["XREVRANGE", key, high, b"(" + low],
            ["XTRIM", key, "MINID", low], ["XTRIM", key, "MAXLEN", "=", size],
            ["XTRIM", key, "MINID", low, "LIMIT", 1],
            ["XDEL", key, b"2-0", b"1-1"],
            ["XINFO", "STREAM", key], ["XSETID", key, self.rng.choice(IDS[:-1])],
            ["XGROUP", "CREATE", key, group, low, "MKSTREAM"], ["XGROUP", "CREATE", key, group, 0],
            ["XGROUP", "DESTROY", key, group],
        )  # fmt: skip


def compared(command: list[Any], reply: Any) -> Any:
    if command[0] == "XINFO" and isinstance(reply, list):
        facts = dict(zip(reply[::2], reply[1::2], strict=True))
        return [facts.get(name) for name in XINFO]
    if isinstance(reply, str):
        return reply[:ALIKE]
    return reply


@pytest.mark.parametrize("seed", SEEDS)
def test_each_command_is_answered_as_a_server_answers_it(
    real: Ask, fake: Ask, group_name: str, seed: int
) -> None:
    commands = Commands(random.Random(seed), group_name)
    done = []
    for _ in range(COMMANDS_PER_SEED):
        done.append(command := commands.draw())
        replies = [compared(command, ask(*command)) for ask in (fake, real)]
        assert replies[0] == replies[1], f"after {done[-12:]}"


TEXTS = (
    b'{"a":1,"b":"c","d":[1,2,{"e":null}],"f":1.5e300,"g":false,"":[]}',
    b'{"slash":"a/b","quote":"\\"","unicode":"\\u00e9\\u20ac","raw":"\xc3\xa9","del":"\x7f"}',
    b"[1,2.5,-0,12345678901234567890,1e3]",
    b'"text"',
    b"[[],{},[[]]]",
    b"{}",
)
BAD = (b"", b"{", b"[1,]", b"nope", b'{"a" 1}')
LUA = (
    "return {1, 2.9, -1.5, 'x', true, false, 3}",
    "return {1, nil, 3}",
    "local many = {} for n = 1, 9000 do many[n] = n % 2 == 0 or tostring(n) end return many",
    "return {ok = 'FINE'}",
    "return {redis.call('MGET', KEYS[1], 'none'), {redis.call('HGETALL', 'none')}}",
    "return redis.call('SET', KEYS[1], 'x').ok",
    "return redis.pcall('HGET', KEYS[1], 'x').err",
    "return redis.call('SET', KEYS[1], 1.5)",
    "return redis.call('SET', KEYS[1], 9007199254740991)",
    "return redis.call('GET', KEYS[1])",
    "return {#ARGV, ARGV[1], #KEYS}",
    "return cjson.encode({1, 2, {a = 'b'}, {}})",
    "return cjson.encode({[1] = 1, [3] = 3})",
    "return cjson.encode({['x'] = 0.1})",
    "return cjson.encode('a/b\\1\\127\"')",
    "return tostring(cjson.decode('[null]')[1] == cjson.null)",
    "return {type(cjson.decode('{\"a\":1}').a), cjson.decode('[3]')[1]}",
    "return select('#', unpack(ARGV))",
)
LUA_REFUSED = (
    "return redis.call('HGET', KEYS[1], 'x')",
    "return redis.call('NONSENSE')",
    "return redis.call('GET')",
    "return redis.call('SET', KEYS[1], {})",
    "return redis.call()",
    "x = 1",
    "return x",
    "return cjson.encode({[1] = 1, [1000] = 2})",
    "return cjson.encode(1 / 0)",
    "return unpack({}, 1, 10000)",
    "error('stop')",
)


def test_scripts_answer_and_are_refused_as_on_a_server(
    real: Ask, fake: Ask, group_name: str
) -> None:
    for ask in (fake, real):
        ask("SET", group_name, "v")
    for text in LUA + LUA_REFUSED:
        replies = [ask("EVAL", text, 1, group_name, "one", "two") for ask in (fake, real)]
        refused = [str(reply).startswith("refused: ") for reply in replies]
        assert refused == [text in LUA_REFUSED] * 2, (text, replies)
        assert refused[0] or replies[0] == replies[1], text  # refusals' words differ


@pytest.mark.parametrize("text", TEXTS + BAD)
def test_json_is_read_and_written_as_on_a_server_and_a_script_may_catch_what_is_none(
    real: Ask, fake: Ask, text: bytes
) -> None:
    again = "local ok, it = pcall(cjson.decode, ARGV[1]) return ok and cjson.encode(it) or 'none'"
    one, other = fake("EVAL", again, 0, text), real("EVAL", again, 0, text)
    assert len(one) == len(other)  # names may come in another order
    assert (one == other == b"none") if text in BAD else json.loads(one) == json.loads(other)
