"""The text of .html and .htm pages: what a browser would show, in paragraphs, the title first."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from selectolax.lexbor import LexborHTMLParser

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


def read(file: BinaryIO, request: Request) -> Iterator[Row]:
    """Yield the page as one text, or its paragraphs."""
    source = "".join(read_blocks(file, request)).replace(_BREAK, " ")
    tree = LexborHTMLParser(source)
    tree.strip_tags(_NOT_SHOWN)
    for node in tree.css(_BLOCKS):
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    for node in tree.css(_CELLS):
        node.insert_after(" ")
    text = tree.root.text(deep=True) if tree.root else ""
    yield from as_rows((_SPACE.sub(" ", part) for part in text.split(_BREAK)), request)
