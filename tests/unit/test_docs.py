"""Pages: their links lead somewhere, and each of them can be found from the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ +(.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [
        link for link in _LINK.findall(_FENCE.sub("", page.read_text())) if not link.startswith(("http", "mailto"))
    ]
    assert [link for link in links if is_broken(page, link)] == []


def test_every_page_is_named_in_the_readme() -> None:
    named = set(_LINK.findall((ROOT / "README.md").read_text()))
    pages = [f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")]
    assert sorted(set(pages) - named) == []
