"""What a server tells an agent about itself: when to use which tool, for the tools it has."""

from collections.abc import Collection

# Clients cut instructions off here.
MAX_CHARS = 2_048

_BEGINNING = """\
Small models that read data so that you need not.
Before you read more than about ten passages, search hits or a long document, let these tools
choose:"""
# In the order of a list of tools.
_USES = {
    "rerank": "orders passages, search hits or rows by relevance to a question; read only the best",
    "filter_context": "keeps the sentences of a long text or file that answer a question, "
    "within a token budget",
    "search_files": "finds the passages in a folder that answer a question, before you open its "
    "files",
    "classify_taxonomy": "puts texts, or every row of a file, into a category tree "
    "(10,595 product categories built in, or your own)",
    "classify": "gives texts one of a few labels of yours, with probabilities",
    "extract_entities": "finds names, addresses, phone numbers and more",
    "extract_relations": "finds who does what to whom, as a graph too",
    "extract_structured": "turns texts into records of your JSON schema",
    "detect_pii": "counts personal data without showing it",
    "redact": "masks personal data",
    "embed": "compares texts by meaning, finds near-duplicates, writes vectors to a file",
    "find_similar": "finds passages or rows like one",
    "deduplicate": "finds duplicates, and what to keep",
    "cluster": "says what many texts are about",
    "list_models": "lists models, to choose another",
    "review_uncertain": "shows a classification's least sure rows",
    "store_corrections": "keeps right categories as examples",
    "explain": "shows why that category",
    "map_taxonomy": "maps a taxonomy to another",
    "search_images": "finds pictures by words or by a picture",
    "classify_images": "sorts pictures into classes of yours",
    "detect_objects": "finds and counts things in pictures",
    "describe_image": "captions pictures, or reads their text",
}
_END = """\
Give many items in one call. Prefer a file path to pasting rows: results can go to a file too, and
you read a summary only. What does not fit an answer is kept for a while: read the `resource` it
names, or ask for less.
Leave `model` out unless you need another than the default. The first call may load a model: an
answer "loading, call again in n seconds" is no failure.
"""


def instructions_for(tools: Collection[str]) -> str:
    """Return the instructions of a server with these tools."""
    uses = [f"- `{name}` {use}." for name, use in _USES.items() if name in tools]
    return "\n".join([_BEGINNING, *uses, _END])
