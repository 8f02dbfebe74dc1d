"""What mkdocs does beyond Markdown: pages from files of the repository, and links out of docs/."""

import html
import os
import re
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
INCLUDE = re.compile(r"<!-- include: (\S+) -->")
NAMED_PAGE = re.compile(r"`docs/([\w/-]+\.md)`")  # README names pages, as links break on PyPI
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^):#\s]+)(#[^)\s]*)?\)")


def _title(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")


PLOT = re.compile(r"!\[([^\]]*)\]\((assets/results/\w+\.svg)\)")
STYLE = re.compile(r"<style>.*?</style>")


def _inline(plot: re.Match[str]) -> str:
    """A plot as part of the page, so that it takes the page's colors."""
    svg = STYLE.sub("", (DOCS / plot[2]).read_text(encoding="utf-8"), count=1)
    label = html.escape(plot[1], quote=True)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Include files of the repository; show what lies outside of docs/ by its path."""
    markdown = INCLUDE.sub(lambda m: (ROOT / m[1]).read_text(encoding="utf-8"), markdown)
    markdown = NAMED_PAGE.sub(lambda m: f"[{_title(m[1])}]({m[1]})", markdown)
    here = Path(page.file.src_uri).parent

    def inside(link: re.Match[str]) -> str:
        target = os.path.normpath(DOCS / here / link[3])
        if Path(target).is_relative_to(DOCS):
            return link[0]
        path = Path(target).relative_to(ROOT)
        if path == Path("benchmarks/README.md"):
            return f"[{link[2]}]({os.path.relpath(DOCS / 'results.md', DOCS / here)})"
        return f"{link[2]} (`{path}` in the repository)"

    return LINK.sub(inside, PLOT.sub(lambda m: f'<div class="plot">{_inline(m)}</div>\n', markdown))
