"""docs/measured.md has a row for whatever the product can be asked, and every command it names."""

import re
import shlex
from pathlib import Path

import pytest
from django.core.management import load_command_class

from dashboard.evaluation import measured
from dashboard.evaluation.chaos.asked import COORDINATIONS, FAULTS
from dashboard.evaluation.chaos.matrix import runs_of
from dashboard.evaluation.measured import FAULT_COLUMNS, TABLE_COLUMNS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/measured.md").read_text()
SECTIONS = ("faults-fast", "faults-default", "faults-spark")


def table(name: str) -> list[list[str]]:
    """Its cells, head first."""
    part = PAGE.split(f"<!-- begin {name} -->\n")[1].split(f"<!-- end {name} -->")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_fault_has_its_row_in_both_coordinations() -> None:
    both = [[fault, mode] for fault in FAULTS for mode in COORDINATIONS]
    for name in SECTIONS[:2]:
        assert sorted(row[:2] for row in table(name)[2:]) == sorted(both), name


def test_the_faults_tables_have_the_rows_of_the_matrix_and_no_others() -> None:
    wanted = runs_of(ROOT / "docs/matrix.txt", 1)
    for name in SECTIONS:
        head, _, *rows = table(name)
        assert tuple(head) == FAULT_COLUMNS
        named = [
            ["+".join(a.faults), a.coordination] for a in wanted if measured.section(a) == name
        ]
        assert [row[:2] for row in rows] == named


def test_the_rebalance_table_has_the_rows_of_the_command() -> None:
    head, _, *rows = table("rebalances")
    written = [line for line in measured.rebalance_table(None) if line.startswith("|")]
    expected = [[cell.strip() for cell in line.strip("|").split("|")][:4] for line in written[2:]]
    assert tuple(head) == TABLE_COLUMNS
    assert [row[:4] for row in rows] == expected


@pytest.mark.parametrize(
    "command",
    [
        "chaos matrix docs/matrix.txt --seeds 5 --out",
        "rebalance_table --repeat 10 --out",
        "write_measured --runs",
        "write_measured --table",
        "chaos --fault",
        "chaos replay",
    ],
)
def test_the_page_names_what_repeats_its_figures(command: str) -> None:
    assert f"python3 manage.py {command} " in PAGE


def test_every_command_of_the_page_can_be_given_as_it_stands() -> None:
    lines = re.findall(r"^python3 manage\.py (.+)$", PAGE, re.MULTILINE)
    assert len(lines) > 5
    for line in lines:
        name, *words = shlex.split(line)
        parser = load_command_class("dashboard", name).create_parser("manage.py", name)
        parser.parse_args(words)  # exits where it cannot be read


def test_the_readme_leads_to_the_page() -> None:
    assert "(docs/measured.md)" in (ROOT / "README.md").read_text()
