"""`python3 manage.py scale_down_preview --members N --percent P [--json]`: how many would leave."""

from typing import Any

from django.core.management.base import CommandParser

from assignment.coordinator import scale_down
from dashboard.management.answers import AnswerCommand


class Command(AnswerCommand):
    help = "Tells how many of N members stay and leave when P percent shall remain."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--members", help="how many are live")
        parser.add_argument("--percent", help="how many of them remain, 1 to 100")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        members = scale_down.whole_number("members", options["members"])
        percent = scale_down.whole_number("percent", options["percent"])
        stay, leave = scale_down.split(members, percent)
        found = {"members": members, "percent": percent, "stay": stay, "leave": leave}
        return found, f"{members} members at {percent} %: {stay} stay, {leave} leave"
