"""LlamaIndex: an embedding model for its indexes, and a postprocessor that ranks nodes."""

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from pydantic import PrivateAttr

from sie_mcp.client import Client
from sie_mcp.client.given import Side
from sie_mcp.errors import InvalidInput

# As many as one request has; the client cuts longer lists anyway.
BATCH_SIZE = 512


class SieEmbedding(BaseEmbedding):
    """Dense vectors of a model: texts as documents, queries as queries."""

    dimensions: int | None = None
    _client: Client = PrivateAttr()

    def __init__(
        self, client: Client, model_name: str, *, embed_batch_size: int = BATCH_SIZE, **kwargs: Any
    ) -> None:
        super().__init__(model_name=model_name, embed_batch_size=embed_batch_size, **kwargs)
        self._client = client

    @classmethod
    def class_name(cls) -> str:
        """Return the name that traces show."""
        return "SieEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embed([query], "query")[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embed([text], "document")[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embed(texts, "document")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    def _embed(self, texts: list[str], side: Side) -> list[list[float]]:
        found: list[list[float]] = self._client.embed(
            texts, self.model_name, side=side, dimensions=self.dimensions
        ).tolist()
        return found


class SieRerank(BaseNodePostprocessor):
    """Keeps the best `top_n` nodes, best first; a node's score is the reranker's."""

    model: str
    top_n: int | None = None
    _client: Client = PrivateAttr()

    def __init__(self, client: Client, model: str, *, top_n: int | None = None) -> None:
        super().__init__(model=model, top_n=top_n)
        self._client = client

    @classmethod
    def class_name(cls) -> str:
        """Return the name that traces show."""
        return "SieRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InvalidInput("a reranker needs the query; give query_str or query_bundle")
        if not nodes:
            return []
        texts = [one.node.get_content(metadata_mode=MetadataMode.EMBED) for one in nodes]
        ranked = self._client.rerank(query_bundle.query_str, texts, self.model, top_n=self.top_n)
        return [NodeWithScore(node=nodes[one.index].node, score=one.score) for one in ranked]
