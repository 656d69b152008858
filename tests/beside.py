"""The suite on PostgreSQL: a process of its own beside the tests before it, most of which wait."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAME = (
    *("test_coordinator.py", "test_history.py", "test_keeping.py", "test_groups.py"),
    *("test_intervals.py", "test_ownership_maps.py", "test_retention.py", "test_bulk.py"),
    *("test_api.py", "test_api_messages.py", "test_api_tokens.py", "test_api_troubles.py"),
    "test_celery.py",
    *("test_audit_chain.py", "test_audit_guards.py", "test_audit_floods.py"),
    *("test_login.py", "test_audit_migration.py", "test_rounds_migration.py", "single_sign_on"),
    *("test_health.py", "test_sockets.py", "test_stateful.py"),
    *("test_scale_down.py", "pages", "metrics"),
    *("test_scale_down_faults.py", "test_scale_down_races.py"),
    *("test_open_connections.py", "test_login_limits.py", "test_role_grants.py"),
    *("test_roles_asked.py", "test_roles_by_command.py"),
)
# They show what Redis says or check what was typed; test_access.py opens the group's pages on
# PostgreSQL too, test_scale_down.py makes the wizard's records.
OF_REDIS = ("test_demo.py", "test_group.py", "test_scale_down_wizard.py")
GIVE_UP_S = 30


class Suite:
    """Runs from the beginning; `folder` takes its data and what it says."""

    def __init__(self, postgres_url: str, folder: Path) -> None:
        tests = ROOT / "tests" / "dashboard"
        paths = [str(tests / name) for name in SAME]
        paths += [f"--ignore={tests / 'pages' / name}" for name in OF_REDIS]
        self._said = folder / "said.txt"
        with self._said.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "--maxfail=20", *paths],
                cwd=ROOT,
                env={**os.environ, "DATABASE_URL": postgres_url, "EVENKEEL_DATA": str(folder)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def end(self) -> tuple[bool, str]:
        """Waits for it. Whether it failed, and the end of what it said."""
        failed = self._process.wait() != 0
        return failed, self._said.read_text(errors="replace")[-12_000:]

    def stop(self) -> None:
        interrupt(self._process)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """It ends what it started itself."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
