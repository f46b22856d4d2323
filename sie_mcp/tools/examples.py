"""Labelled examples from a file: texts, and the categories that somebody gave them."""

import anyio.to_thread

from sie_mcp.catalogue.taxonomy import SEPARATOR, Taxonomy
from sie_mcp.errors import InvalidInput
from sie_mcp.tools.categories.choice import MAX_EXAMPLES, Examples
from sie_mcp.tools.context import ToolContext
from sie_mcp.tools.folders import AllowedPath
from sie_mcp.tools.inputs import check_text
from sie_mcp.tools.sources import read_files
from sie_mcp.tools.taxonomy_nodes import nodes_like

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
TEXT, CATEGORY = "text", "category"
# What is shown of a wrong category.
MAX_SHOWN_CHARS = 120


async def read_examples(context: ToolContext, path: str, taxonomy: Taxonomy) -> Examples:
    """Read the file at `path`; "" is no examples.

    Raises:
        InvalidInput: no such file or columns, too many, or a category that is not in the taxonomy.
    """
    if not path:
        return Examples()
    file = context.folders.to_read(path, ENDINGS, argument="examples")
    return await anyio.to_thread.run_sync(_read, file, context, taxonomy)


def _read(file: AllowedPath, context: ToolContext, taxonomy: Taxonomy) -> Examples:
    limit = context.config.max_file_bytes
    texts, categories = (
        [row.text for row in read_files([file], [column], whole=False, max_bytes=limit).rows]
        for column in (TEXT, CATEGORY)
    )
    if len(texts) > MAX_EXAMPLES:
        raise InvalidInput(
            f"examples: {file.name} has {len(texts):,} rows; the limit is {MAX_EXAMPLES:,}; keep "
            "a few of each category"
        )
    known = category_nodes(taxonomy)
    # Of a text that comes twice the last row counts: it was corrected.
    nodes: dict[str, int] = {}
    for row, (text, category) in enumerate(zip(texts, categories, strict=True)):
        check_text(text, f"examples: {file.name} row {row}", context.config.max_item_chars)
        node = known.get(category.strip().casefold())
        if node is None:
            where = f"examples: {file.name} row {row}, column `{CATEGORY}`"
            raise unknown_category(where, category, taxonomy)
        nodes.pop(text, None)
        nodes[text] = node
    return Examples(list(nodes), list(nodes.values()))


def category_nodes(taxonomy: Taxonomy) -> dict[str, int]:
    """Return each category's place in the taxonomy, under its path and its id in lower case."""
    known = {SEPARATOR.join(path).casefold(): node for node, path in enumerate(taxonomy.paths)}
    # An id stands for its node even if it reads like another's path.
    return known | {one.casefold(): node for node, one in enumerate(taxonomy.ids or ())}


def unknown_category(where: str, category: str, taxonomy: Taxonomy) -> InvalidInput:
    """Return the error that there is no such category, with those that may have been meant."""
    shown = category.strip()[:MAX_SHOWN_CHARS]
    near = " or ".join(repr(path) for path in nodes_like(taxonomy, shown))
    hint = f"did you mean {near}?" if near else "give an id, or a path like A > B"
    return InvalidInput(f"{where}: {shown!r} is no category of {taxonomy.name}; {hint}")
