"""What commands read of their arguments, and how they tell their progress. Knows no Django."""

import argparse
import sys
from collections.abc import Callable


def say(line: str) -> None:
    """Progress; standard output is for the answer."""
    print(line, file=sys.stderr, flush=True)


def whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} to {most}"
            )
        return int(text)

    return parse


def not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return value
