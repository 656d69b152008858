"""The parts of the demo: Redis, web, Celery worker, beat, watch, producer, agents with consumers.

Each is a program that can also be started by hand; the README's table says how. Knows no Django.
"""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assignment.rights import has_login, with_token_file, without_login
from dashboard.demo.embedded_redis import (
    EmbeddedRedis,
    RedisNotStarted,
    external_url,
    free_port,
)
from dashboard.demo.options import AGENT_TOKEN, AGENTS_URL, GROUP, PRODUCER_TOKEN, Options, Refused
from dashboard.demo.tree import Process, StartFailed, never, without_error
from dashboard.demo.web_health import ANSWER_TIMEOUT_S, HUNG_S, LivenessProbe, answers
from dashboard.web import liveness

ROOT = Path(__file__).resolve().parent.parent.parent
ASK_EVERY_S = 2.0  # parts that are looked at together are judged by one answer
CONSUMER_READY_S = 300.0  # Spark starts in 10-20 s on a quiet machine
PREPARE_TIMEOUT_S = 120
GRACE_S = 8.0
SPARK_CONF = "EVENKEEL_SPARK_CONF"
SNAPSHOT_URLS = "EVENKEEL_SNAPSHOT_URLS"
# Three JVMs on two cores, with batches of some events. The second compiler costs more than it
# saves: the flights pipeline takes 13 instead of 22 CPU seconds of Java until it is ready, and 0.7
# instead of 1.0 for each of its first batches. So does Java that Spark writes for each plan:
# without it the whole demo takes 0.80 cores instead of 1.15.
QUICK_SPARK = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
WORKERS = 4  # of Celery, as few as there should be: see dashboard/celery.py
REDIS, WEB, WORKER, WATCH, CONSUMER = range(5)  # layers, in the order of their start


@dataclass(slots=True)
class RedisPart:
    """The embedded server as a part of the tree."""

    server: EmbeddedRedis
    name: str = "redis"
    ready_s: float = 1.0  # start() itself waits
    layer: int = REDIS
    essential: bool = True

    @property
    def log(self) -> Path:
        return self.server.folder / "redis.log"

    def start(self) -> None:
        try:
            self.server.start()
        except RedisNotStarted as error:
            raise StartFailed(str(error)) from error

    def exit_code(self) -> int | None:
        return self.server.process.poll() if self.server.process else None

    def is_done(self, code: int) -> bool | None:
        return never(code)

    def ask_to_end(self) -> None:
        if self.server.process:
            self.server.process.terminate()

    def stop(self, patient: bool) -> None:
        self.server.stop() if patient else self.server.kill()

    def ready(self) -> bool:
        return self.server.pid is not None

    def healthy(self) -> bool:
        return self.server.answers()

    def why(self) -> str:
        return f"log: {self.log}"


@dataclass(slots=True)
class Parts:
    """Makes the parts for one set of options and one Redis."""

    options: Options
    redis_url: str
    environment: dict[str, str] = field(default_factory=dict)
    _asked: tuple[float, Mapping[str, Any]] = (-ASK_EVERY_S, {})

    def __post_init__(self) -> None:
        given_urls = os.environ.get(SNAPSHOT_URLS)
        self.environment = {
            "EVENKEEL_DATA": str(self.options.data),
            "EVENKEEL_URL": self.options.url,
            "REDIS_URL": self.redis_url,
            "EVENKEEL_REDIS_URL": self.redis_url,  # another one may stand in the environment
            SNAPSHOT_URLS: ",".join(filter(None, (given_urls, self.snapshots))),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        if self.options.database_url:
            self.environment["DATABASE_URL"] = self.options.database_url

    @property
    def snapshots(self) -> str:
        return str(self.options.data.absolute() / "snapshots")

    def log(self, name: str) -> Path:
        return self.options.data / "logs" / f"{name}.log"

    def process(self, name: str, layer: int, module: str, *arguments: str, **more: Any) -> Process:
        return Process(
            name=name,
            command=(sys.executable, "-m", module, *arguments),
            log=self.log(name.replace(" ", "-")),
            environment={**self.environment, **more.pop("environment", {})},
            layer=layer,
            **more,
        )

    def webs(self) -> list[Process]:
        """All behind the one address, each with a port of its own where there are several."""
        port = self.options.port
        if self.options.webs == 1:
            return [self.web()]
        return [self.web(number, free_port(), port) for number in range(1, self.options.webs + 1)]

    def web(self, number: int = 1, port: int = 0, shared_port: int = 0) -> Process:
        """`port` 0: that of the options, with no other process."""
        name, port = numbered("web", number), port or self.options.port
        options = ("--host", "127.0.0.1", "--port", str(port))
        shared = ("--shared-port", str(shared_port)) if shared_port else ()
        file = self.log(name).with_suffix(".liveness")
        return self.process(
            name,
            WEB,
            "dashboard.web",
            *(*options, *shared, "--no-access-log", "--no-proxy-headers"),
            "--timeout-graceful-shutdown",
            "3",
            environment={liveness.VARIABLE: str(file.absolute())},
            is_ready=lambda: answers(port, "/healthz"),
            is_healthy=LivenessProbe(port, file).is_alive,
        )

    def workers(self) -> list[Process]:
        return [self.worker(number) for number in range(1, self.options.workers + 1)]

    def worker(self, number: int = 1) -> Process:
        name = numbered("worker", number)
        options = ("--concurrency", str(WORKERS), "--loglevel", "INFO")
        return self.process(
            name,
            WORKER,
            "celery",
            "-A",
            "dashboard.celery",
            "worker",
            *("--hostname", f"{name}@%h", *options),
            is_healthy=lambda: self.lives("worker"),
        )

    def beat(self) -> Process:
        """Ready when the worker's ticker has gone the whole way: Redis, database."""
        return self.process(
            "beat",
            WORKER,
            "celery",
            "-A",
            "dashboard.celery",
            "beat",
            "--pidfile=",
            is_ready=lambda: answers(self.options.port, "/readyz"),
            is_healthy=lambda: self.lives("beat"),
        )

    def watch(self, status_file: Path) -> Process:
        return self.process(
            "watch",
            WATCH,
            "dashboard.demo.watch",
            GROUP,
            str(status_file),
            is_ready=status_file.exists,
            is_healthy=lambda: self.writes(status_file),
        )

    def producer(self, *arguments: str) -> Process:
        speed = f"{self.options.speed:g}"
        limit = () if self.options.flights is None else ("--limit", str(self.options.flights))
        return self.process(
            "producer",
            CONSUMER,
            "agent.producer",
            "flights",
            *("--stream", GROUP, "--speed", speed, *limit, *arguments),
            environment={"EVENKEEL_REDIS_URL": self._producers_url()},
            is_healthy=lambda: self.writes(self.log("producer")),
            may_end=without_error,
        )

    def state_folder(self, consumer: str) -> Path:
        return self.options.data / "agents" / consumer

    def consumer(
        self,
        number: int,
        is_ready: Callable[[], bool],
        may_end: Callable[[int], bool | None] = never,
    ) -> Process:
        name = f"consumer-{number}"
        spark = {SPARK_CONF: json.dumps({**QUICK_SPARK, **spark_conf_given()})}
        return self.agent(
            *(name, GROUP, self.options.url, self.options.pipeline),
            environment=spark,
            is_ready=is_ready,
            may_end=may_end,
            ready_s=CONSUMER_READY_S,
            stop_s=GRACE_S + 7,
        )

    def agent(
        self,
        name: str,
        group: str,
        dashboard: str,
        pipeline: Sequence[str],
        *,
        environment: Mapping[str, str],
        **more: Any,
    ) -> Process:
        """`pipeline`: the command of the consumer beside it."""
        check = {"EVENKEEL_CHECK": "1"} if self.options.check else {}
        log_format = ("--log-format", "json") if self.options.check else ()
        return self.process(
            name,
            CONSUMER,
            "agent",
            *("--group", group, "--name", name, "--dashboard", dashboard),
            *("--token-file", str(self.options.data / AGENT_TOKEN)),
            *("--state-dir", str(self.state_folder(name))),
            *("--snapshot-url", self.snapshots),
            *log_format,
            *("--", *pipeline),
            environment={"EVENKEEL_REDIS_URL": self._agents_url(), **check, **environment},
            **more,
        )

    def _agents_url(self) -> str:
        """Without a login, which their token is; as `prepare` found out for this very Redis."""
        path = self.options.data / AGENTS_URL
        found = path.read_text().strip() if path.exists() else ""
        is_of_this = without_login(found) == without_login(self.redis_url)
        return found if is_of_this else self.redis_url

    def _producers_url(self) -> str:
        """As `_agents_url`; the token of its stream is made with the group."""
        url, token = self._agents_url(), self.options.data.absolute() / PRODUCER_TOKEN
        if has_login(url) or not token.exists():
            return self.redis_url
        return with_token_file(url, token)

    def lives(self, name: str) -> bool:
        """Whether beat or worker gave a sign of life lately, or could not: a worker begins only
        what beat asks for.
        """
        needed = {"beat": ("beat",), "worker": ("beat", "worker")}[name]
        old = [sign for sign in needed if (self._ages_ms().get(sign) or 0) > HUNG_S * 1_000]
        return old[:1] != [name]

    def writes(self, file: Path) -> bool:
        """Whether it did lately, or could not."""
        if not self._ages_ms():
            return True
        return file.exists() and time.time() - file.stat().st_mtime < HUNG_S

    def _ages_ms(self) -> Mapping[str, int | None]:
        """Of the signs of life; empty while web, Redis or database is what is wrong."""
        asked_s, checks = self._asked
        if time.monotonic() - asked_s > ASK_EVERY_S:
            checks = ready_checks(self.options.port)
            self._asked = time.monotonic(), checks
        if not checks.get("redis") or not checks.get("database"):
            return {}
        ages_ms: Mapping[str, int | None] = checks["redis"]["ages_ms"]
        return ages_ms

    def prepare(self, *group: str) -> None:
        """Tables, operator, group (as the options say, or by these arguments) and token. Raises
        Refused with the sentence it failed with.
        """
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.demo.prepare", *(group or self._group_asked())],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=PREPARE_TIMEOUT_S,
            check=False,
        )
        with self.log("prepare").open("a") as log:
            log.write(done.stdout + done.stderr)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["the database was not prepared"]
            raise Refused(lines[-1].removeprefix("evenkeel: "))

    def _group_asked(self) -> tuple[str, ...]:
        options = self.options
        if not options.demo:
            return ()
        return (
            *("--group", GROUP, "--partitions", str(options.partitions)),
            *("--standbys", str(options.standbys)),
            *(() if options.stateful else ("--stateless",)),
            *(("--check",) if options.check else ()),
        )


def numbered(name: str, number: int) -> str:
    """The first is called as if it were the only one."""
    return name if number == 1 else f"{name}-{number}"


def kind_of(name: str) -> str:
    """Of a part that was numbered."""
    return name.partition("-")[0]


def redis_server(data: Path) -> EmbeddedRedis | None:
    """None when REDIS_URL names the operator's own."""
    return None if external_url() else EmbeddedRedis(data / "redis")


def spark_conf_given() -> dict[str, Any]:
    """What the operator wants of Spark goes before what the demo wants. Raises Refused."""
    text = os.environ.get(SPARK_CONF, "{}")
    try:
        values: dict[str, Any] = {**json.loads(text)}
    except (ValueError, TypeError) as error:
        raise Refused(f"{SPARK_CONF} is not a JSON object: {text!r}") from error
    return values


def ready_checks(port: int) -> Mapping[str, Any]:
    """What /readyz found, ready or not; empty when it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        checks: Mapping[str, Any] = json.loads(connection.getresponse().read())["checks"]
        return checks
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return {}
    finally:
        connection.close()


def read_status(status_file: Path) -> Mapping[str, Any] | None:
    """What watch wrote last; None when it has not yet."""
    try:
        found: Mapping[str, Any] = json.loads(status_file.read_text())
    except (OSError, json.JSONDecodeError):
        return None
    return found
