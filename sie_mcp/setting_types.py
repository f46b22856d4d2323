"""How a setting's text becomes its value: paths, lists, URLs, levels. Knows no setting."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

# What a model is wanted for, where its name is "auto".
DEFAULT_KINDS = ("encode", "score", "extract", "extract_labels")
# A model of less would come too seldom for callers that wait; see the scheduler's turns.
MIN_WEIGHT, MAX_WEIGHT = 0.1, 10.0


def _absolute(path: Path) -> Path:
    """Clients write `~` in their settings, and no shell replaces it."""
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _split(separator: str) -> BeforeValidator:
    """Accept a list in one variable: JSON, or its parts with a separator between them."""

    def split(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        # An IPv6 address starts with a bracket too.
        if value.lstrip().startswith('["'):
            try:
                return json.loads(value)
            except ValueError as error:
                raise ValueError(f"not a JSON array ({error})") from error
        return [part.strip() for part in value.split(separator) if part.strip()]

    return BeforeValidator(split)


def _read_by(read: Callable[[tuple[str, ...]], object]) -> AfterValidator:
    """Accept what can be read so, and keep it as it is written."""

    def check(parts: tuple[str, ...]) -> tuple[str, ...]:
        read(parts)
        return parts

    return AfterValidator(check)


def _is_web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("a URL starts with http:// or https://")
    return url


def _none_is_empty(names: Any) -> Any:
    return () if names in (["none"], ("none",)) else names


def _is_host(host: str) -> str:
    if "*" in host.removesuffix(":*") or "/" in host:
        raise ValueError(
            f"{host!r} is not a host as a request names it: example.org, "
            "example.org:8080, or example.org:* for any port"
        )
    return host


def _is_origin(origin: str) -> str:
    scheme, separator, host = origin.partition("://")
    if not separator or not scheme or not host:
        raise ValueError(f"{origin!r} is not an origin such as https://app.example.org")
    _is_host(host)
    return origin


def _is_store_address(uri: str) -> str:
    if not uri.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError(
            "the URI of a Redis or Valkey server starts with redis://, rediss:// or unix://"
        )
    return uri


def _is_broker_address(uri: str) -> str:
    if not uri.startswith(("nats://", "tls://")) or not urlsplit(uri).hostname:
        raise ValueError("the URI of a NATS server is nats://host:4222, or tls://host:4222")
    return uri


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def weights_of(parts: tuple[str, ...]) -> dict[str, float]:
    """Return the weight of each model that has one.

    Raises:
        ValueError: a part is not model=weight, or the weight is out of bounds.
    """
    weights: dict[str, float] = {}
    for part in parts:
        model, _, text = part.rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = 0.0
        if not model.strip() or not MIN_WEIGHT <= weight <= MAX_WEIGHT:
            raise ValueError(
                f"{part!r} is not model=weight with a weight of {MIN_WEIGHT:g} to {MAX_WEIGHT:g}"
            )
        weights[model.strip()] = weight
    return weights


def defaults_of(parts: tuple[str, ...]) -> dict[str, str]:
    """Return the default model of each kind that has one.

    Raises:
        ValueError: a part is not kind=model.
    """
    defaults: dict[str, str] = {}
    for part in parts:
        kind, _, model = (one.strip() for one in part.partition("="))
        if kind not in DEFAULT_KINDS or not model:
            raise ValueError(
                f"{part!r} is not kind=model with a kind of {', '.join(DEFAULT_KINDS)}"
            )
        defaults[kind] = model
    return defaults


def wants_traces(variables: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's own variables say that traces go somewhere."""
    is_off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporter = variables.get("OTEL_TRACES_EXPORTER", "")
    places = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    has_place = exporter == "otlp" or any(variables.get(name) for name in places)
    return has_place and not is_off and exporter != "none"


AnyPath = Annotated[Path, AfterValidator(_absolute)]
# Faster ways to compute on a GPU.
GpuPath = Literal["kernels", "graphs", "overlap"]
GpuPaths = Annotated[tuple[GpuPath, ...], NoDecode, BeforeValidator(_none_is_empty), _split(",")]
Folders = Annotated[tuple[AnyPath, ...], NoDecode, _split(os.pathsep)]
Names = Annotated[tuple[str, ...], NoDecode, _split(",")]
Host = Annotated[str, AfterValidator(_is_host)]
Hosts = Annotated[tuple[Host, ...], NoDecode, _split(",")]
Origin = Annotated[str, AfterValidator(_is_origin)]
Origins = Annotated[tuple[Origin, ...], NoDecode, _split(",")]
Weights = Annotated[Names, _read_by(weights_of)]
Defaults = Annotated[Names, _read_by(defaults_of)]
Url = Annotated[str, AfterValidator(_is_web_address)]
StoreUri = Annotated[str, AfterValidator(_is_store_address)]
BrokerUri = Annotated[str, AfterValidator(_is_broker_address)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)]
