"""Settings from the environment: a wrong value stops the process with a sentence that names it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOW = "from dashboard import settings as s; print({})"


def started(folder: Path, show: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {k: v for k, v in os.environ.items() if k not in ("REDIS_URL", "DATABASE_URL")}
    return subprocess.run(
        [sys.executable, "-c", SHOW.format(show)],
        env={**clean, "EVENKEEL_DATA": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS_URL", "http://x"),
        ("REDIS_URL", "redis://[::1"),
        ("EVENKEEL_BROKER_URL", "amqp://x"),
        ("EVENKEEL_BROKER_URL", "unix:///run/redis"),
        ("EVENKEEL_CHANNELS_URL", "redis://[::1"),
        ("EVENKEEL_CHANNELS_URL", "redis+cluster://a:1"),
        ("EVENKEEL_BROKER_URL", "redis+cluster://a:1"),
        ("REDIS_URL", "redis+cluster://a:1,b:x"),
        ("DATABASE_URL", "nonsense://x"),
        ("EVENKEEL_DEBUG", "maybe"),
        ("EVENKEEL_AGENT_RATE", "many"),
        ("EVENKEEL_HISTORY_DAYS", "-1"),
        ("EVENKEEL_DATABASE_POOL", "7"),
        ("EVENKEEL_SNAPSHOT_URLS", "/data/a,data/b"),
        ("EVENKEEL_DATA", "/proc/no"),
        ("EVENKEEL_AUDIT_KEY", "guess"),
        ("EVENKEEL_METRICS_TOKEN", "m" * 31),
        ("EVENKEEL_WEBHOOK_NETWORKS", "10.0.0.1/8"),
        ("EVENKEEL_METRICS_TOKEN", f"{'m' * 20} {'n' * 20}"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, name: str, value: str) -> None:
    process = started(tmp_path, "1", **{name: value})
    assert process.returncode != 0
    assert name in process.stderr.splitlines()[-1]


def test_a_command_that_cannot_read_its_settings_ends_with_one_sentence(tmp_path: Path) -> None:
    """1 would say of `chaos` that an invariant did not hold."""
    run = "import sys, manage; sys.argv = ['manage.py', 'chaos']; manage.run_command()"
    process = subprocess.run(
        [sys.executable, "-c", run],
        env={**os.environ, "EVENKEEL_DATA": str(tmp_path), "REDIS_URL": "redis://[::1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 3
    assert process.stderr.startswith("evenkeel: REDIS_URL") and process.stderr.count("\n") == 1


def test_defaults_are_safe_and_local(tmp_path: Path) -> None:
    shown = "s.DEBUG, s.DEVELOPMENT, s.SESSION_COOKIE_SECURE, s.DATABASES['default']['ENGINE']"
    told = started(tmp_path, shown).stdout
    assert told == "False True False django.db.backends.sqlite3\n"


@pytest.mark.parametrize("module", ["dashboard.web", "dashboard.celery"])
def test_a_web_process_alone_shares_its_connections_to_postgresql(
    tmp_path: Path, module: str
) -> None:
    given = "postgres://u@h/name", "sqlite:///name"
    asked = SHOW.format("s.IS_POOLED, s.DATABASES['default']['CONN_MAX_AGE']")
    shown = f"import {module}; {asked}"
    found = [
        subprocess.run(
            [sys.executable, "-c", shown],
            env={**os.environ, "EVENKEEL_DATA": str(tmp_path), "DATABASE_URL": url},
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout
        for url in given
    ]  # fmt: skip
    is_web = module == "dashboard.web"
    assert found == ["True 0\n" if is_web else "False 600\n", "False 600\n"]


def test_another_host_means_secure_cookies(tmp_path: Path) -> None:
    shown = "s.DEVELOPMENT, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE"
    assert started(tmp_path, shown, EVENKEEL_HOSTS="example.org").stdout == "False True True\n"


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    first = started(tmp_path, "s.SECRET_KEY").stdout
    assert len(first) > 50
    assert started(tmp_path, "s.SECRET_KEY").stdout == first
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    assert started(tmp_path, "s.SECRET_KEY", SECRET_KEY="given").stdout == "given\n"


def test_the_audit_key_is_one_of_its_own_and_former_ones_stay_known(tmp_path: Path) -> None:
    first = started(tmp_path, "s.AUDIT_KEYS, s.SECRET_KEY in s.AUDIT_KEYS").stdout
    assert started(tmp_path, "s.AUDIT_KEYS, s.SECRET_KEY in s.AUDIT_KEYS").stdout == first
    assert first.endswith(" False\n")
    assert stat.S_IMODE((tmp_path / "audit_key").stat().st_mode) == 0o600
    given = f"{'n' * 32} {'o' * 32}"
    told = started(tmp_path, "s.AUDIT_KEYS", EVENKEEL_AUDIT_KEY=given).stdout
    assert told == f"{given.split()}\n"


def test_a_second_terminal_finds_the_redis_of_up(tmp_path: Path) -> None:
    (tmp_path / "redis_url").write_text("redis://127.0.0.1:7777/0\n")
    assert started(tmp_path, "s.REDIS_URL").stdout == "redis://127.0.0.1:7777/0\n"


def test_broker_and_channel_layer_may_be_other_servers(tmp_path: Path) -> None:
    show = "s.REDIS_URL, s.CHANNEL_LAYERS['default']['CONFIG']['hosts']"
    given = {"REDIS_URL": "redis://a", "EVENKEEL_CHANNELS_URL": "redis://c"}
    assert started(tmp_path, show, **given).stdout == "redis://a ['redis://c']\n"
    asked = "__import__('dashboard.celery').celery.app.conf.broker_url"
    given = {"REDIS_URL": "redis://a", "EVENKEEL_BROKER_URL": "redis://b"}
    assert started(tmp_path, asked, **given).stdout == "redis://b\n"
    assert started(tmp_path, asked, REDIS_URL="redis://a").stdout == "redis://a\n"


@pytest.mark.parametrize("missing", ["EVENKEEL_BROKER_URL", "EVENKEEL_CHANNELS_URL"])
def test_beside_a_cluster_broker_and_channel_layer_are_another_redis(
    tmp_path: Path, missing: str
) -> None:
    url = "redis+cluster://a:1,b:2"
    given = {"EVENKEEL_BROKER_URL": "redis://c", "EVENKEEL_CHANNELS_URL": "redis://c"}
    assert started(tmp_path, "s.REDIS_URL", REDIS_URL=url, **given).stdout == f"{url}\n"
    del given[missing]
    refused = started(tmp_path, "1", REDIS_URL=url, **given).stderr.splitlines()[-1]
    assert refused.endswith(f"give {missing} the address of another Redis that is none")
