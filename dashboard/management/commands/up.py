"""`python3 manage.py up`: everything on this machine, supervised, until Ctrl-C.

Progress goes to standard error. The last line on standard output is the status object.
"""

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from dashboard.demo import up
from dashboard.demo.options import Options
from dashboard.management.arguments import not_negative, say, whole


class Command(BaseCommand):
    help = "Starts Redis, web, Celery, the producer and Spark consumers, each beside its agent."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--consumers", type=whole(1, 100), default=3)
        parser.add_argument("--partitions", type=whole(1, 100_000), default=12)
        parser.add_argument(
            "--standbys",
            type=whole(0, 10),
            default=0,
            help="replicas of each partition's state on other consumers, default 0",
        )
        parser.add_argument(
            "--speed",
            type=not_negative,
            default=3600.0,
            help="replayed seconds per second, default 3600; 0 = as fast as it goes",
        )
        parser.add_argument("--port", type=whole(1, 65_535), default=8000)
        parser.add_argument("--data", type=Path, help="data folder, default ./data")
        for name, of in (("webs", "web processes behind that port"), ("workers", "Celery workers")):
            parser.add_argument(f"--{name}", type=whole(1, 16), default=1, help=f"{of}, default 1")
        parser.add_argument("--no-demo", action="store_true", help="the dashboard alone")
        parser.add_argument(
            "--seconds", type=not_negative, help="stop so long after all partitions are owned"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        wanted = Options(
            data=settings.DATA,
            port=options["port"],
            consumers=options["consumers"],
            partitions=options["partitions"],
            standbys=options["standbys"],
            speed=options["speed"],
            demo=not options["no_demo"],
            webs=options["webs"],
            workers=options["workers"],
        )
        sys.exit(up.run(wanted, options["seconds"], say))
