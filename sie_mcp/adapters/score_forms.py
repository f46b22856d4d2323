"""How language models that rerank are asked: the texts around query and document, form by form.

Sources: the model cards and reference code of Qwen3-Reranker, mxbai-rerank-v2, zerank and
bge-reranker-v2-gemma. Each part is tokenised by itself, as there; only the document is ever cut to
fit.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """One way of asking.

    Attributes:
        before: Parts before the one with the document; {query} and {instruction} are filled in, a
            part whose instruction is empty is left out.
        document: The part with {document}, the last of its fields.
        after: Fixed parts at the end.
        true_word: Whose logit is the score.
        false_word: Whose logit is taken off; None: nothing is.
        instruction: What to judge by when nobody says.
        divisor: Of the logit.
    """

    before: tuple[str, ...]
    document: str
    after: tuple[str, ...]
    true_word: str
    false_word: str | None = None
    instruction: str = ""
    divisor: float = 1.0


_CHAT_END = "<|im_end|>\n<|im_start|>assistant\n"

FORMS: dict[str, Form] = {
    "qwen3": Form(
        before=(
            "<|im_start|>system\nJudge whether the Document meets the requirements based on the "
            'Query and the Instruct provided. Note that the answer can only be "yes" or "no".'
            "<|im_end|>\n<|im_start|>user\n",
        ),
        document="<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}",
        after=(_CHAT_END + "<think>\n\n</think>\n\n",),
        true_word="yes",
        false_word="no",
        instruction="Given a web search query, retrieve relevant passages that answer the query",
    ),
    "mxbai": Form(
        before=(
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
            "assistant.<|im_end|>\n<|im_start|>user\n",
            "instruction: {instruction}\n",
            "query: {query}",
            "\n",
        ),
        document="document: {document}",
        after=(
            "\n",
            "You are a search relevance expert who evaluates how well documents match search "
            "queries. For each query-document pair, carefully analyze the semantic relationship "
            "between them, then provide your binary relevance judgment (0 for not relevant, 1 for "
            "relevant).\nRelevance:",
            _CHAT_END,
        ),
        true_word="1",
        false_word="0",
    ),
    "gemma": Form(
        before=("<bos>", "A: {query}", "\n"),
        document="B: {document}",
        after=(
            "\n",
            "Given a query A and a passage B, determine whether the passage contains an answer to "
            "the query by providing a prediction of either 'Yes' or 'No'.",
        ),
        true_word="Yes",
    ),
    "zerank": Form(
        before=("<|im_start|>system\n{query}<|im_end|>\n<|im_start|>user\n",),
        document="{document}",
        after=(_CHAT_END,),
        true_word="Yes",
        divisor=5.0,
    ),
}
