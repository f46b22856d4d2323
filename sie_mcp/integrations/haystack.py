"""Haystack: components that embed a query, embed documents, and rank documents."""

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_to_dict
from haystack.utils import Secret

from sie_mcp.client import Client

URL = "http://127.0.0.1:8080"


@component
class SieTextEmbedder:
    """Embeds one text, a query, for a retriever."""

    def __init__(
        self,
        model: str,
        url: str = URL,
        api_key: Secret | None = None,
        dimensions: int | None = None,
    ) -> None:
        self.model = model
        self.url = url
        self.api_key = api_key
        self.dimensions = dimensions
        self._client = _connect(url, api_key)

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Embed the text as a query."""
        found = self._client.embed(text, self.model, side="query", dimensions=self.dimensions)
        return {"embedding": found[0].tolist()}

    def to_dict(self) -> dict[str, Any]:
        """Write down the settings; a key by the name of its variable."""
        return _embedder_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SieTextEmbedder":
        """Make a component of its settings."""
        return cls(**_settings(data))


@component
class SieDocumentEmbedder:
    """Embeds documents for a store."""

    def __init__(
        self,
        model: str,
        url: str = URL,
        api_key: Secret | None = None,
        dimensions: int | None = None,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
    ) -> None:
        self.model = model
        self.url = url
        self.api_key = api_key
        self.dimensions = dimensions
        self.meta_fields_to_embed = meta_fields_to_embed
        self.embedding_separator = embedding_separator
        self._client = _connect(url, api_key)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Return the documents with their embeddings; those given stay as they are."""
        if not documents:
            return {"documents": []}
        texts = [
            _text(one, self.meta_fields_to_embed, self.embedding_separator) for one in documents
        ]
        found = self._client.embed(texts, self.model, side="document", dimensions=self.dimensions)
        vectors = found.tolist()
        return {
            "documents": [
                replace(one, embedding=vector)
                for one, vector in zip(documents, vectors, strict=True)
            ]
        }

    def to_dict(self) -> dict[str, Any]:
        """Write down the settings; a key by the name of its variable."""
        return _embedder_to_dict(
            self,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SieDocumentEmbedder":
        """Make a component of its settings."""
        return cls(**_settings(data))


@component
class SieRanker:
    """Ranks documents against a query: the best `top_k`, with the reranker's scores."""

    def __init__(
        self, model: str, url: str = URL, api_key: Secret | None = None, top_k: int | None = None
    ) -> None:
        self.model = model
        self.url = url
        self.api_key = api_key
        self.top_k = top_k
        self._client = _connect(url, api_key)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, Any]:
        """Rank by content."""
        if not documents:
            return {"documents": []}
        texts = [one.content or "" for one in documents]
        best = top_k or self.top_k
        ranked = self._client.rerank(query, texts, self.model, top_n=best)
        return {"documents": [replace(documents[one.index], score=one.score) for one in ranked]}

    def to_dict(self) -> dict[str, Any]:
        """Write down the settings; a key by the name of its variable."""
        return _to_dict(self, top_k=self.top_k)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "SieRanker":
        """Make a component of its settings."""
        return cls(**_settings(data))


def _connect(url: str, api_key: Secret | None) -> Client:
    return Client(url, api_key=None if api_key is None else api_key.resolve_value())


def _text(document: Document, fields: list[str] | None, separator: str) -> str:
    metadata = [str(document.meta[name]) for name in fields or () if document.meta.get(name)]
    return separator.join([*metadata, document.content or ""])


def _embedder_to_dict(made: Any, **more: Any) -> dict[str, Any]:
    return _to_dict(made, dimensions=made.dimensions, **more)


def _to_dict(made: Any, **more: Any) -> dict[str, Any]:
    key = made.api_key.to_dict() if made.api_key else None
    written: dict[str, Any] = default_to_dict(
        made, model=made.model, url=made.url, api_key=key, **more
    )
    return written


def _settings(data: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = dict(data["init_parameters"])
    if settings.get("api_key") is not None:
        settings["api_key"] = Secret.from_dict(settings["api_key"])
    return settings
