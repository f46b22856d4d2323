"""The text of .html and .htm pages: what a browser would show, in paragraphs, the title first."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from selectolax.lexbor import LexborHTMLParser

from sie_mcp.errors import InvalidInput
from sie_mcp.tools.readers.paragraphs import as_rows
from sie_mcp.tools.readers.rows import Request, Row
from sie_mcp.tools.readers.text import read_blocks

_NOT_SHOWN = ["script", "style", "template", "noscript", "svg", "math", "iframe", "select"]
_BLOCKS = (
    "p,div,br,li,dt,dd,tr,table,ul,ol,dl,h1,h2,h3,h4,h5,h6,pre,blockquote,section,article,header,"
    "footer,nav,aside,main,figure,figcaption,form,fieldset,address,details,summary,hr,title"
)
_CELLS = "td,th"
# A character that no text holds: it is taken out before.
_BREAK = "\x1e"
_SPACE = re.compile(r"\s+")
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
# Elements that nothing can be inside of, or that end where another begins.
# fmt: off
_SHALLOW = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta",
    "source", "track", "wbr", "p", "li", "dt", "dd", "tr", "td", "th",
    "option", "optgroup", "thead", "tbody", "tfoot", "colgroup", "rb", "rt", "rtc", "rp",
    "html", "head", "body",
))
# fmt: on
# Browsers stop at 512. A parser's time grows with the square of the depth.
MAX_DEPTH = 2_000


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield the page as one text, or its paragraphs.

    Raises:
        InvalidInput: no text in it, or elements nested deeper than `MAX_DEPTH`.
    """
    source = "".join(read_blocks(file, request)).replace(_BREAK, " ")
    _check_depth(source, request.name)
    tree = LexborHTMLParser(source)
    tree.strip_tags(_NOT_SHOWN)
    for node in tree.css(_BLOCKS):
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    for node in tree.css(_CELLS):
        node.insert_after(" ")
    text = tree.root.text(deep=True) if tree.root else ""
    yield from as_rows((_SPACE.sub(" ", part) for part in text.split(_BREAK)), request)


def _check_depth(source: str, name: str) -> None:
    """Refuse a page with too many elements open at once."""
    opened: Counter[str] = Counter()
    depth = 0
    for found in _TAG.finditer(source):
        closing, written = found.groups()
        if (tag := written.lower()) in _SHALLOW:
            continue
        change = 1 if not closing else -1 if opened[tag] else 0
        opened[tag] += change
        depth += change
        if depth > MAX_DEPTH:
            raise InvalidInput(
                f"{name}: more than {MAX_DEPTH:,} elements are open at once (the last is "
                f"<{written[:40]}>); close them, or give the page's text"
            )
