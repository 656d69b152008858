"""/groups/<name>/pause/: what is paused, and how to change it."""

import pytest
from django.test import Client

from dashboard.models import Group
from dashboard.pages.views import pause as view
from tests.dashboard.agents import FakeAgent


def test_a_partition_then_the_group_are_paused_and_resumed(
    visitor: Client, group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, address = f"/groups/{group.name}/", f"/groups/{group.name}/pause/"
    assert f'href="{address}"' in visitor.get(home).content.decode()
    one = visitor.post(f"{address}?partition=1", {"do": "pause", "reason": "a look"}, follow=True)
    page = one.content.decode()
    assert "Partition 1 is asked to stand still: pausing (0 of 1)." in page
    assert '<dd id="paused">since ' in page and "by ann: a look" in page
    assert f'href="{address}?partition=1"> Resume</a>' in page
    monkeypatch.setattr(view, "ALL_TYPED_FROM", 4)
    wrong = visitor.post(address, {"do": "pause", "reason": "a look", "typed": "x"})
    assert f"the group is {group.name}" in wrong.content.decode()
    sent = {"do": "pause", "reason": "a look", "typed": group.name}
    page = visitor.post(address, sent, follow=True).content.decode()
    assert "The group is pausing (0 of 4 confirmed) since" in page
    page = visitor.get(address).content.decode()
    assert "Paused individually" in page and "Not confirmed yet" in page
    assert (
        "paused" not in visitor.get(f"{address}?partition=2").content.decode().split("</form>")[0]
    )
    refused = visitor.post(f"{address}?partition=2", {"do": "resume", "reason": "x"})
    assert "The whole group is paused: resume the group." in refused.content.decode()
    done = visitor.post(address, {"do": "resume", "reason": "done"}, follow=True)
    assert "The group goes on." in done.content.decode()


def test_who_may_not_pause_is_told_why(
    viewer: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/pause/"
    why = "To pause and resume takes the role operator or admin in group"
    assert f'title="{why}' in viewer.get(f"/groups/{group.name}/").content.decode()
    assert f'disabled title="{why}' in viewer.get(address).content.decode()
    assert viewer.post(address, {"do": "pause", "reason": "x"}).status_code == 403
