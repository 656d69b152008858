"""What a server's refusal means to whoever asked."""

import pytest

from assignment import errors
from assignment.errors import Trouble, trouble_of


@pytest.mark.parametrize("word", sorted(errors.ELSEWHERE))
def test_a_word_means_the_same_wherever_the_client_leaves_it(word: str) -> None:
    inside = f"ERR Error running script (call to f_0): @user_script:3: @user_script: 3: -{word} x"
    told = f"Command # 1 (HGET h f) of pipeline caused error: {word} x"
    for text, code in ((f"{word} x", None), ("x", word), (inside, None), (told, None)):
        assert trouble_of(text, code) is Trouble.ELSEWHERE


def test_a_server_that_is_full_or_busy_keeps_its_connections() -> None:
    for text in ("OOM command not allowed", "MISCONF x", "BUSY x", "UNKILLABLE x", "ERR odd"):
        assert trouble_of(text) is Trouble.PASSING
