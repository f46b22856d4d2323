"""What of found passages is worth reading: of prose its sentences that matter, of code all."""

import re
from collections.abc import Sequence

from sie_mcp import wire
from sie_mcp.client import EngineClient, Progress
from sie_mcp.tools.excerpts import excerpts, sentences_of
from sie_mcp.tools.folders import ending_of
from sie_mcp.tools.inputs import Inputs
from sie_mcp.tools.sentence_scores import score_sentences

# Of other files a part without the lines around it is of no use: code, tables, settings.
PROSE_ENDINGS = frozenset((".txt", ".md", ".rst", ".html", ".htm", ".pdf", ".docx"))
# Of a passage without a sentence that stands out: enough to see what it is about.
SNIPPET_CHARS = 70
# Of the way from the median score to the best: what stands out over many passages is stricter than
# over one text, as each passage shows its best sentence anyway (evals/LOG.md, token economy).
LEAST = 0.5
# A line's end that is followed by more of its paragraph: no blank line, list or heading.
_LINE_END = re.compile(r"(?<=\S)[ \t]*\n[ \t]*(?=[^\W_]|[(\"'“‘«])(?!\d+[.)]\s)")


async def shorten_passages(
    client: EngineClient,
    model: str,
    query: str,
    passages: Sequence[tuple[str, str]],
    progress: Progress,
) -> list[str]:
    """Return the text to show of each passage, given with its file's name."""
    places = [place for place, (name, _) in enumerate(passages) if ending_of(name) in PROSE_ENDINGS]
    texts = [text for _, text in passages]
    prose = [texts[place] for place in places]
    shown = await shorten_prose(client, model, query, prose, progress)
    for place, text in zip(places, shown, strict=True):
        texts[place] = text
    return texts


async def shorten_prose(
    client: EngineClient, model: str, query: str, texts: Sequence[str], progress: Progress
) -> list[str]:
    """Return the text to show of each text.

    Sentences are compared over all texts; of one that has none worth showing the best begins.
    """
    sentences = sentences_of(texts)
    if len(sentences) <= 1:
        return list(texts)
    inputs = Inputs([wire.Item(text=text) for text in texts], list(range(len(texts))))
    scored = await score_sentences(client, model, query, inputs, sentences, progress, LEAST)
    best: dict[int, int] = {}
    for number, sentence in enumerate(sentences):
        before = best.setdefault(sentence.source, number)
        if scored.scores[number] > scored.scores[before]:
            best[sentence.source] = number
    shown = sorted(scored.worth.union(best.values()))
    standing_out = {sentences[number].source for number in scored.worth}
    found = list(texts)
    for excerpt in excerpts([sentences[number] for number in shown], texts):
        is_whole = excerpt.source in standing_out
        text = _unwrapped(excerpt.text)
        found[excerpt.source] = text if is_whole else _beginning(text)
    return found


def _unwrapped(text: str) -> str:
    """Join the lines of a paragraph: where they end says nothing, and costs a token each."""
    return _LINE_END.sub(" ", text)


def _beginning(text: str) -> str:
    """Cut a sentence after a word."""
    if len(text) <= SNIPPET_CHARS:
        return text
    part = text[:SNIPPET_CHARS]
    return part[: part.rfind(" ")] if " " in part[SNIPPET_CHARS // 2 :] else part
