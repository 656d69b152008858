"""Who may import what (style guide, section 2), read from the sources themselves."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [p for top in ("assignment", "agent", "dashboard") for p in (ROOT / top).rglob("*.py")]
NAMES = [str(p.relative_to(ROOT)) for p in MODULES]
# What a library may be imported by: prefixes of paths.
HOMES = {
    "redis": ("agent/store", "dashboard/live"),
    "pyspark": ("agent/spark/", "agent/pipelines/"),
    "django": ("dashboard/",),
    "requests": ("dashboard/single_sign_on/",),
    "jwt": ("dashboard/single_sign_on/",),
    "prometheus_client": ("dashboard/api/",),
    "markdown_it": ("dashboard/pages/help/",),
    "ninja": ("dashboard/api/v1/",),
    "pydantic": ("dashboard/api/v1/",),
    "allauth": ("dashboard/single_sign_on/", "dashboard/actions/users.py"),
    "agent": ("agent/",),
    "dashboard": ("dashboard/",),
}
IMPURE = {"time", "random", "logging", "socket", "threading", "asyncio", "subprocess", "secrets"}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tree_of(name: str) -> ast.AST:
    return ast.parse((ROOT / name).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_libraries_stay_in_their_rooms(name: str) -> None:
    tops = {module.partition(".")[0] for module in imported(tree_of(name))}
    assert not {top for top in tops & HOMES.keys() if not name.startswith(HOMES[top])}


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("assignment/")])
def test_the_core_is_pure(name: str) -> None:
    tree = tree_of(name)
    tops = {module.partition(".")[0] for module in imported(tree)}
    assert tops <= (sys.stdlib_module_names - IMPURE) | {"numpy", "msgspec", "assignment"}
    calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    clocks = ("datetime.now", "datetime.utcnow", "date.today", "open", "print", "input")
    assert not {c for c in calls if c.endswith(clocks[:3]) or c in clocks}
    assert "np.random" not in {
        ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)
    }


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("dashboard/push/")])
def test_sockets_import_no_models(name: str) -> None:
    assert not {m for m in imported(tree_of(name)) if m.startswith("dashboard.models")}


@pytest.mark.parametrize("name", NAMES)
def test_files_stay_below_four_hundred_lines(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= 400


def test_no_line_of_a_page_is_longer_than_a_hundred_columns() -> None:
    kinds = ("templates/**/*.html", "dashboard/static/dashboard/*/*.js", "dashboard/**/*.css")
    ours = {p for kind in kinds for p in ROOT.glob(kind) if p.parent.name != "vendor"}
    assert len(ours) > 100
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(ours)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    ]
    assert not long


def test_templates_are_laid_out_by_djangofmt() -> None:
    command = (str(Path(sys.executable).with_name("djangofmt")), "--check", "templates")
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"djangofmt templates\n{found.stdout}{found.stderr}"
