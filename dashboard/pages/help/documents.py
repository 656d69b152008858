"""The documents that Help shows, and where they stand: beside the code, as the dashboard is run
from its checkout. What it must not know: requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from django.conf import settings

FOLDER = PurePosixPath("docs")
IMAGES = FOLDER / "img"
KINDS = {".png": "image/png", ".svg": "image/svg+xml"}  # of images


@dataclass(frozen=True, slots=True)
class Document:
    """`path`: within the repository."""

    slug: str
    title: str
    about: str
    path: PurePosixPath

    @property
    def file(self) -> Path:
        return Path(settings.ROOT / self.path)


def _document(slug: str, title: str, about: str, path: str = "") -> Document:
    return Document(slug, title, about, PurePosixPath(path or FOLDER / f"{slug}.md"))


DOCUMENTS = (
    _document("concepts", "Concepts", "What a group, a lock, a fence, an epoch and a plan are."),
    _document("operating", "Operating guide", "What to do when something needs attention."),
    _document("settings", "Settings", "What may be set for a group, with defaults and bounds."),
    _document("api", "API", "The same by programs: tokens, commands, errors."),
    _document("metrics", "Metrics", "Prometheus: every metric, alerts, a Grafana dashboard."),
    _document("webhooks", "Webhooks", "Who is told when something needs attention."),
    _document("security", "Security", "Who may do what, and what is trusted.", "SECURITY.md"),
    _document("single-sign-on", "Single sign-on", "OpenID Connect.", "docs/single_sign_on.md"),
    _document("capacity", "Capacity", "What machines a load takes, and its limits."),
    _document("evaluation", "Evaluation", "How it rebalances, measured.", "docs/measured.md"),
)
BY_SLUG: Mapping[str, Document] = {one.slug: one for one in DOCUMENTS}
BY_PATH: Mapping[PurePosixPath, Document] = {one.path: one for one in DOCUMENTS}
OPERATING = BY_SLUG["operating"]


def image(name: str) -> Path | None:
    """A picture of the documents; None: there is none of that name."""
    path = Path(settings.ROOT / IMAGES / name)
    return path if PurePosixPath(name).name == name and path.suffix in KINDS else None
