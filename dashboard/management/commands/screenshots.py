"""`python3 manage.py screenshots --out FOLDER`: every page, light and dark, 1440 and 390 wide.

Of a system of its own, in which real agents and people made the history that is shown.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from dashboard.demo.prepare import read_login
from dashboard.evaluation.runner import EvaluationCommand, Found, folder, tell, told
from dashboard.evaluation.screenshots.addresses import Address
from dashboard.pages.help.documents import IMAGES


class Command(EvaluationCommand):
    help = "Takes pictures of every page of a running system that it starts for itself."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--out",
            type=folder,
            default=Path("screenshots").resolve(),
            help="folder of the pictures and their index.html, default ./screenshots",
        )

        parser.add_argument("--docs", action="store_true", help="write anew those of docs/img")

    def body(self, options: dict[str, Any]) -> tuple[Found, int]:
        """Playwright is for development: another command must not need it."""
        from dashboard.evaluation.screenshots.pictures import Photographer, browser
        from dashboard.evaluation.screenshots.world import scene

        out: Path = options["out"]
        out.mkdir(parents=True, exist_ok=True)
        with browser() as chromium, scene() as world:
            world.start()
            world.happen()
            camera = Photographer(chromium, world.demo.options.url, out)
            camera.log_in(*read_login(world.demo.options.data / "login"))
            pages = camera.pages([Address(**one) for one in world.deed("addresses")])
            if options["docs"]:
                camera.take_for_docs(pages, settings.ROOT / IMAGES)
            camera.take(pages)
            index = camera.write_index()
        tell(f"the pictures are in {index}")
        files = sum(map(len, camera.taken.values()))
        return told({"folder": str(out), "pages": len(pages), "pictures": files}, camera.wrong)
