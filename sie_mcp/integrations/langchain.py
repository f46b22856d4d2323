"""LangChain: embeddings for its vector stores, and a reranker for what they retrieve."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from pydantic import ConfigDict

from sie_mcp.client import Client


class SieEmbeddings(Embeddings):
    """Dense vectors of a model: documents and queries, each as what they are."""

    def __init__(self, client: Client, model: str, *, dimensions: int | None = None) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents, in order."""
        if not texts:
            return []
        found: list[list[float]] = self._client.embed(
            texts, self._model, side="document", dimensions=self._dimensions
        ).tolist()
        return found

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        found = self._client.embed(text, self._model, side="query", dimensions=self._dimensions)
        vector: list[float] = found[0].tolist()
        return vector


class SieReranker(BaseDocumentCompressor):
    """Keeps the best `top_n` documents, best first, with `relevance_score` in their metadata."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    client: Any
    model: str
    top_n: int | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Rank documents by their text against the query."""
        if not documents:
            return []
        texts = [one.page_content for one in documents]
        ranked = self.client.rerank(query, texts, self.model, top_n=self.top_n)
        return [
            Document(
                id=documents[one.index].id,
                page_content=documents[one.index].page_content,
                metadata={**documents[one.index].metadata, "relevance_score": one.score},
            )
            for one in ranked
        ]
