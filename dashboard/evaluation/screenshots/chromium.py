"""The Chromium of this machine: what takes pictures and what tests pages start the same one."""

import shutil

from assignment.errors import EvenkeelError

NAMES = ("chromium", "chromium-browser", "google-chrome")  # as .ci/run looks for it
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class NoChromium(EvenkeelError):
    """None of its names is on PATH."""


def executable() -> str:
    """Its path. Raises NoChromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise NoChromium(
            f"there is no Chromium here: none of {', '.join(NAMES)} is on PATH. Install one, for"
            " example with `apt install chromium`"
        )
    return found
