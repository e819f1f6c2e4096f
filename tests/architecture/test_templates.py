"""`{% url … as name %}` swallows a name that does not exist: the link would just be missing."""

import re
from pathlib import Path

from django.urls import URLResolver, get_resolver

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def names(resolver: URLResolver, prefix: str = "") -> set[str]:
    found: set[str] = set()
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            found |= names(entry, f"{prefix}{entry.namespace}:" if entry.namespace else prefix)
        elif entry.name:
            found.add(prefix + entry.name)
    return found


def test_every_page_that_a_template_links_to_exists() -> None:
    known = names(get_resolver())
    linked = {
        (str(page.relative_to(TEMPLATES)), name)
        for page in TEMPLATES.rglob("*.html")
        for name in re.findall(r"""{% url ['"]([a-z_:-]+)['"]""", page.read_text())
    }
    assert len(linked) > 50
    assert {(page, name) for page, name in linked if name not in known} == set()
