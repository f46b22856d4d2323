"""What of found passages is worth reading: of prose its sentences that matter, of code all."""

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
SNIPPET_CHARS = 100


async def shorten_passages(
    client: EngineClient,
    model: str,
    query: str,
    passages: Sequence[tuple[str, str]],
    progress: Progress,
) -> list[str]:
    """Return the text to show of each passage, given with its file's name.

    Sentences are compared over all passages; of one that has none worth showing the best begins.
    """
    places = [place for place, (name, _) in enumerate(passages) if ending_of(name) in PROSE_ENDINGS]
    texts = [text for _, text in passages]
    prose = [texts[place] for place in places]
    sentences = sentences_of(prose)
    if len(sentences) <= 1:
        return texts
    inputs = Inputs([wire.Item(text=text) for text in prose], places)
    scored = await score_sentences(client, model, query, inputs, sentences, progress)
    best: dict[int, int] = {}
    for number, sentence in enumerate(sentences):
        before = best.setdefault(sentence.source, number)
        if scored.scores[number] > scored.scores[before]:
            best[sentence.source] = number
    shown = sorted(scored.worth.union(best.values()))
    standing_out = {sentences[number].source for number in scored.worth}
    for excerpt in excerpts([sentences[number] for number in shown], prose):
        is_whole = excerpt.source in standing_out
        text = excerpt.text if is_whole else _beginning(excerpt.text)
        texts[places[excerpt.source]] = text
    return texts


def _beginning(text: str) -> str:
    """Cut a sentence after a word."""
    if len(text) <= SNIPPET_CHARS:
        return text
    part = text[:SNIPPET_CHARS]
    return part[: part.rfind(" ")] if " " in part[SNIPPET_CHARS // 2 :] else part
