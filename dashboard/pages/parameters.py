"""Parameters of strategies as people type and read them: JSON, and what each strategy takes."""

import json
from collections.abc import Mapping
from typing import Any

from assignment.errors import InvalidInput
from assignment.setting import PARAMETERS_MAX
from dashboard import strict_json


def parse(text: str) -> dict[str, Any]:
    """Empty text is no parameters. InvalidInput says what is wrong, in a sentence."""
    if not text.strip():
        return {}
    if len(text) > PARAMETERS_MAX:
        raise InvalidInput(f"parameters have {len(text)} characters, above {PARAMETERS_MAX}")
    found = strict_json.read("what was typed", text)
    if not isinstance(found, dict):
        raise InvalidInput("parameters are not a JSON object, like {} or the examples below")
    return found


def shown(parameters: Mapping[str, Any]) -> str:
    return json.dumps(parameters, ensure_ascii=False) if parameters else ""
