"""Checks every link and picture inside a built site: the file must exist, and have the anchor.

    python scripts/check_links.py docs/_build/html

Links to other hosts are not followed: a build needs no network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class PageLinks(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in ("href", "src") if name in given]


def read_page(path: Path) -> PageLinks:
    page = PageLinks()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_links(site: Path) -> list[str]:
    """A line for each link that leads nowhere."""
    found = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: read_page(path) for path in found}
    return [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not _leads_somewhere(link, path, pages)
    ]


def _leads_somewhere(link: str, path: Path, pages: dict[Path, PageLinks]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    anchors = pages[target].anchors if target in pages else set()
    is_page_top = parts.fragment in ("", "#") or target not in pages
    return target.exists() and (is_page_top or unquote(parts.fragment) in anchors)


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    broken = broken_links(site)
    print(*broken, sep="\n")
    if not any(site.rglob("*.html")):
        raise SystemExit(f"no pages in {site}; `make docs` builds them")
    raise SystemExit(f"{len(broken)} links lead nowhere" if broken else 0)


if __name__ == "__main__":
    main()
