"""Help: every document opens, its links lead somewhere, and what needs attention has a section."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.api.health import look
from dashboard.live.attention import WORDS
from dashboard.pages.help.documents import BY_SLUG, DOCUMENTS, OPERATING, Document
from dashboard.pages.help.finding import sections, what_to_do
from dashboard.pages.help.rendered import anchor_of, render
from tests.dashboard.reading import squeezed

LINK = re.compile(r'<a href="([^"]+)"')
IMAGE = re.compile(r'<img src="([^"]+)"')


@pytest.fixture
def written(tmp_path: Path, settings: Settings) -> Document:
    """A document in a checkout of its own."""
    settings.ROOT = tmp_path
    (tmp_path / "docs").mkdir()
    return BY_SLUG["concepts"]


def test_every_document_opens_and_its_links_lead_somewhere(visitor: Client) -> None:
    index = visitor.get("/help/").content.decode()
    for document in DOCUMENTS:
        assert f'href="/help/{document.slug}/"' in index
        page = visitor.get(f"/help/{document.slug}/")
        assert page.status_code == 200, document.slug
        rendered = render(document)
        assert squeezed(str(rendered.body)).strip() in page.content.decode()
        anchors = {heading.anchor for heading in rendered.headings}
        for url in LINK.findall(rendered.body):
            parts = urlsplit(url)
            if parts.netloc:
                continue
            of = anchors
            if parts.path:
                slug = parts.path.removeprefix("/help/").strip("/")
                of = {heading.anchor for heading in render(BY_SLUG[slug]).headings}
            assert not parts.fragment or parts.fragment in of, (document.slug, url)
        for url in IMAGE.findall(rendered.body):
            answer = visitor.get(url)
            assert answer.status_code == 200, (document.slug, url)
            assert answer["Content-Type"] in ("image/png", "image/svg+xml")


def test_nothing_of_a_document_becomes_html_of_its_own(written: Document) -> None:
    written.file.write_text(
        "# Title\n\n<script>alert(1)</script>\n\n[run](javascript:alert(1)) and "
        "![x](img/../../data/secret_key) [file](metrics/alerts.yml) [api](api.md#tokens)\n\n"
        "| a | b |\n|---|--:|\n| <b>x</b> | 1 |\n"
    )
    body = str(render(written).body)
    assert "<script" not in body and "<b>" not in body and "style=" not in body
    assert 'href="javascript' not in body and "/help/img/secret_key" not in body
    assert "alerts.yml" not in body and 'file <a href="/help/api/#tokens">' in body
    assert '<div class="scroll"><table>' in body.replace("\n", "") and '<td class="n">1' in body


def test_anchors_are_those_of_a_forge_and_the_second_of_a_name_has_a_number(
    written: Document,
) -> None:
    assert anchor_of("What no ACL bounds, `EVAL`!") == "what-no-acl-bounds-eval"
    written.file.write_text("# T\n\n## Same\n\n## Same\n\n### Below\n")
    found = [(one.level, one.anchor) for one in render(written).headings]
    assert found == [(2, "same"), (2, "same-1"), (3, "below")]


@pytest.mark.parametrize("name", ["nothing.png", "..%2Fapi.md", "map.html"])
def test_only_pictures_of_the_documents_are_served(visitor: Client, name: str) -> None:
    assert visitor.get(f"/help/img/{name}").status_code == 404


def test_without_a_checkout_the_page_says_so(visitor: Client, written: Document) -> None:
    answer = visitor.get("/help/concepts/")
    assert answer.status_code == 404
    assert "no docs/concepts.md" in answer.content.decode()


@pytest.mark.django_db
def test_what_needs_attention_and_each_part_of_status_has_its_section() -> None:
    anchors = {heading.anchor for heading in render(OPERATING).headings}
    for word in (*WORDS, *look()["checks"], "Redis away", "Plan is stale", "History behind"):
        assert what_to_do(word).partition("#")[2] in anchors, word


def test_search_finds_sections_by_their_headings(visitor: Client) -> None:
    assert ("Operating guide · Flapping", "/help/operating/#flapping") in [*sections("flapp")]
    assert [*sections("")] == []
    assert "Operating guide · Flapping" in visitor.get("/search/?q=flapping").content.decode()
