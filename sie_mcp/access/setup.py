"""From settings to who may call. Anything that is missing or does not fit stops the start."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sie_mcp.access.bearer import Authenticator
from sie_mcp.access.gate import Access
from sie_mcp.access.introspection import Client, Introspection
from sie_mcp.access.issuer import IssuerKeys, is_safe
from sie_mcp.access.keys import Keys, ToolNames
from sie_mcp.access.principal import CONTROL, RUN, CallerLimits
from sie_mcp.access.rates import Rates
from sie_mcp.access.tokens import Tokens
from sie_mcp.config import Config
from sie_mcp.errors import SettingError

WELL_KNOWN = "/.well-known/oauth-protected-resource"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Which settings belong to which mode.
_KEYS = ("api_keys_file",)
_OAUTH = ("oauth_issuer", "resource_url")
_OAUTH_TOO = ("oauth_jwks_url", "oauth_introspection_url")
_ASKING = ("oauth_client_id", "oauth_client_secret_file")
MAX_SECRET_BYTES = 4_096


def make_access(config: Config, tool_names: ToolNames | None = None) -> Access:
    """Return who may call.

    Args:
        config: The settings.
        tool_names: What the `tools` of a key may name, where there are tools.

    Raises:
        SettingError: a setting is missing, wrong, or has no effect in this mode.
    """
    _check_settings(config)
    limits = CallerLimits(
        config.requests_per_minute, config.tokens_per_minute, config.max_concurrent
    )
    return Access(
        Rates(config.limit_storage),
        _authenticator(config, limits, tool_names),
        limits,
        _metadata_url(config) if config.auth == "oauth" else None,
    )


def metadata_routes(config: Config) -> list[Route]:
    """Return where a client learns who issues tokens for this server (RFC 9728)."""
    if config.auth != "oauth":
        return []
    # Texts as they were given: clients compare them with what an issuer says of itself.
    metadata = {
        "resource": config.resource_url,
        "authorization_servers": [config.oauth_issuer],
        "scopes_supported": [RUN, CONTROL],
        "bearer_methods_supported": ["header"],
        "resource_name": "sie-mcp",
    }

    async def answer(_: Request) -> Response:
        # Clients in a browser read it before they may call.
        return JSONResponse(metadata, headers={"Access-Control-Allow-Origin": "*"})

    # Some clients ask at the root only.
    paths = dict.fromkeys([urlsplit(_metadata_url(config)).path, WELL_KNOWN])
    return [Route(path, answer) for path in paths]


def check_exposure(config: Config, host: str) -> None:
    """Refuse to be open to a network by default.

    Raises:
        SettingError: nobody said that everybody may call.
    """
    if host in LOOPBACK or config.auth != "none" or "auth" in config.model_fields_set:
        return
    raise SettingError(
        f"host={host} is open to others and auth is not set; set SIE_MCP_AUTH to api-key or oauth, "
        "or to none if something in front of this server keeps strangers out"
    )


def _authenticator(
    config: Config, limits: CallerLimits, tool_names: ToolNames | None
) -> Authenticator | None:
    if config.auth == "api-key":
        assert config.api_keys_file is not None
        return Keys(config.api_keys_file, limits, tool_names)
    if config.auth == "oauth":
        assert config.oauth_issuer is not None
        assert config.resource_url is not None
        if config.oauth_introspection_url is not None:
            return Introspection(
                config.oauth_introspection_url,
                config.oauth_issuer,
                config.resource_url,
                _client(config),
                limits,
            )
        keys = IssuerKeys(config.oauth_issuer, config.oauth_jwks_url)
        return Tokens(config.oauth_issuer, config.resource_url, keys, limits)
    return None


def _client(config: Config) -> Client:
    """Return as whom to ask the issuer.

    Raises:
        SettingError: the secret cannot be read.
    """
    assert config.oauth_client_id is not None
    assert config.oauth_client_secret_file is not None
    try:
        with config.oauth_client_secret_file.open(encoding="utf-8") as file:
            secret = file.read(MAX_SECRET_BYTES + 1).strip()
    except (OSError, ValueError) as error:
        raise SettingError(f"oauth_client_secret_file cannot be read: {error}") from error
    if not 1 <= len(secret) <= MAX_SECRET_BYTES:
        raise SettingError(f"oauth_client_secret_file: 1 to {MAX_SECRET_BYTES:,} characters")
    return Client(config.oauth_client_id, secret)


def _check_settings(config: Config) -> None:
    needed = {"none": (), "api-key": _KEYS, "oauth": _OAUTH}[config.auth]
    if config.auth == "oauth" and config.oauth_introspection_url is not None:
        needed = (*_OAUTH, *_ASKING)
    missing = [name for name in needed if getattr(config, name) is None]
    if missing:
        hint = (
            "; `sie-mcp key new NAME` prints an entry of that file" if missing == [*_KEYS] else ""
        )
        raise SettingError(f"auth={config.auth} needs {' and '.join(missing)}{hint}")
    used = {*needed, *(_OAUTH_TOO if config.auth == "oauth" else ())}
    useless = [
        name
        for name in (*_KEYS, *_OAUTH, *_OAUTH_TOO, *_ASKING)
        if name not in used and getattr(config, name) is not None
    ]
    if useless:
        raise SettingError(f"{useless[0]} is set, but auth={config.auth} does not use it")
    if config.oauth_introspection_url is not None and config.oauth_jwks_url is not None:
        raise SettingError("set oauth_introspection_url or oauth_jwks_url, not both")
    for name in (*_OAUTH, *_OAUTH_TOO):
        url = getattr(config, name)
        if url is not None and not is_safe(url):
            raise SettingError(f"{name}={url}: https:// is needed, except on this machine")
    if config.resource_url is not None and urlsplit(config.resource_url).fragment:
        raise SettingError(f"resource_url={config.resource_url}: no #fragment")


def _metadata_url(config: Config) -> str:
    """Return where the metadata is: the well-known path goes between host and path."""
    parts = urlsplit(config.resource_url or "")
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"
