"""The scripts' words for why something changed are those of the code."""

import re
from pathlib import Path

from assignment import lua
from assignment.types import Drain, Reason

SCRIPTS = sorted(Path(lua.__file__).parent.glob("*.lua"))
CALLS = r"(?:hint|group_changed)\('([^']*)'|remove_member\([^)]*'([^']+)'\)"
CHOSEN = r"(?:^|\s)(?:reason|local reasons) = (.*)"
# What whoever runs a script gives it as an argument.
GIVEN = {
    Reason.MANUAL, Reason.STATEFUL, Reason.STRATEGY, Reason.STANDBYS, Reason.LEARNERS,
    Reason.PARTITIONS, Reason.LOST, Reason.NEXT_ROUND, Reason.SETTINGS, Reason.WIPED,
}  # fmt: skip


def words() -> set[str]:
    """The scripts' literals; of a table's keys and of what is compared none is written."""
    found: set[str] = set()
    for script in SCRIPTS:
        text = script.read_text()
        found |= {word for pair in re.findall(CALLS, text) for word in pair}
        for chosen in re.findall(CHOSEN, text):
            found |= set(re.findall(r"'([^']+)'", chosen.replace("['']", "")))
    return found - {""}


def test_each_word_of_the_scripts_is_a_reason_and_each_reason_is_written_by_somebody() -> None:
    assert words() == {*Reason} - GIVEN
    assert set(Drain) == {"", "leaving", "forced"}
