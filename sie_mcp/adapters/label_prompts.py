"""Labels that a caller names: checked, and dealt out to prompts that hold only so many.

Knows how many tokens labels have; knows no model.
"""

from collections.abc import Sequence

from sie_mcp.errors import InvalidInput

MAX_LABELS = 1000


def check_labels(labels: Sequence[str] | None, name: str) -> list[str]:
    """Return the labels in order, each once; they differ by any character, case included.

    Raises:
        InvalidInput: none, too many, or one without a character to read.
    """
    if not labels:
        raise InvalidInput(f"{name} finds what you name: send labels, e.g. ['person', 'city']")
    if len(labels) > MAX_LABELS:
        raise InvalidInput(f"{len(labels)} labels; at most {MAX_LABELS} in a request, split them")
    for place, label in enumerate(labels):
        if not label.strip():
            raise InvalidInput(f"labels[{place}] is {label!r}; a label needs a word")
    return list(dict.fromkeys(labels))


def deal_labels(sizes: Sequence[int], *, max_labels: int, max_tokens: int) -> list[range]:
    """Deal labels out to as few prompts as hold them, neighbours together and evenly.

    Args:
        sizes: Tokens of each label, with what stands around it; none has over `max_tokens`.
        max_labels: Of a prompt.
        max_tokens: Of a prompt.

    Returns:
        The places of each prompt's labels.
    """
    share = -(-len(sizes) // -(-len(sizes) // max_labels))
    prompts: list[range] = []
    first, num_tokens = 0, 0
    for place, size in enumerate(sizes):
        if place - first == share or num_tokens + size > max_tokens:
            prompts.append(range(first, place))
            first, num_tokens = place, 0
        num_tokens += size
    return [*prompts, range(first, len(sizes))]
