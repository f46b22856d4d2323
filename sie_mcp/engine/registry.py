"""From the name in a request to a model: catalogue name, alias, hub id, folder, or "auto".

Data and files only: knows nothing of memory or devices.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sie_mcp import wire
from sie_mcp.adapters.card import products_of
from sie_mcp.catalogue.entries import Catalogue, Entry, Primitive, Role, is_hub_id, is_revision
from sie_mcp.catalogue.fetch import FetchOptions, fetch_entry, fetch_hub, find_hub, find_local
from sie_mcp.errors import InvalidInput, ModelNotFound, NotAllowed
from sie_mcp.local_models import FOLDER_PREFIXES, LOCAL_MODELS_REFUSED, is_local_model

AUTO = "auto"
# A folder with none of these is no model's.
_SIGNS = (
    "config.json",
    "modules.json",
    "model.safetensors",
    "adapter_config.json",
    "gliner_config.json",
    "glirel_config.json",
)

_EXTRACTING = frozenset({"token_classification", "gliner", "glirel", "zero_shot", "structure"})


@dataclass(frozen=True, slots=True)
class Located:
    """A model's files on disk, and what the catalogue knows of it.

    `head_folder` holds the head of a model whose other files are those of its base, or a tokenizer
    that the folder lacks.
    """

    folder: Path
    entry: Entry | None
    head_folder: Path | None = None


class Registry:
    """Names of models. `locate` and `resolve` may block on disk and network: call on a thread.

    Args:
        catalogue: Known models.
        cache_dir: Where fetched files lie.
        options: How to fetch.
    """

    def __init__(self, catalogue: Catalogue, cache_dir: Path, options: FetchOptions) -> None:
        self._catalogue = catalogue
        self._cache_dir = cache_dir
        self._options = options
        # Found once; files that go later are missed by the load, which tries the next default.
        self._found: set[str] = set()

    def resolve(self, name: str, role: Role) -> str:
        """Return the one name that a model is kept under; "auto" becomes the default.

        The default is the first of the catalogue's list that is on disk, else the first.

        Raises:
            InvalidInput: no default for this role.
        """
        if name != AUTO:
            entry = self._catalogue.find(name)
            return entry.name if entry is not None else name
        names = self.candidates(role)
        if not names:
            raise InvalidInput(
                f"no default model for {role}; name one, or set SIE_MCP_DEFAULT_MODELS={role}=NAME"
            )
        return names[0]

    def candidates(self, role: Role) -> list[str]:
        """Return the defaults for a role, in the order to try them: those on disk come first."""
        names = self._catalogue.defaults.get(role, ())
        return sorted(names, key=lambda one: not self.is_on_disk(one))

    def is_on_disk(self, name: str) -> bool:
        """Whether all files of a catalogue's model are here, or were when that was last asked."""
        if name in self._found:
            return True
        entry = self._catalogue.find(name)
        is_here = entry is not None and all(
            find_local(part, self._cache_dir) is not None for part in self._catalogue.parts(entry)
        )
        if is_here:
            self._found.add(name)
        return is_here

    def card(self, name: str) -> wire.ModelCard | None:
        """Describe a model of the catalogue; None where the catalogue does not say what it does."""
        entry = self._catalogue.find(name)
        return None if entry is None or not entry.tasks else self._card(entry)

    def locate(self, name: str) -> Located:
        """Return the folder of a model's files, fetching them if need be.

        Raises:
            ModelNotFound: nothing is called so.
            DownloadFailed: no source delivered.
        """
        if not self.is_findable(name):
            raise self.not_found(name)
        entry = self._catalogue.find(name)
        if entry is not None:
            folder, *head = [
                fetch_entry(part, self._cache_dir, options=self._options)
                for part in self._catalogue.parts(entry)
            ]
            return Located(folder, self._catalogue.known(entry), *head)
        if name.startswith(FOLDER_PREFIXES):
            return Located(_model_folder(name), None)
        repo, _, revision = name.partition("@")
        folder = find_hub(repo, revision or None, self._cache_dir) or fetch_hub(
            repo, revision or None, self._cache_dir, options=self._options
        )
        return Located(folder, None)

    def check_known(self, name: str, *, may_come: bool) -> None:
        """Refuse a name that no catalogue entry and no model on disk has.

        Args:
            name: As `resolve` returned it.
            may_come: It need only look like a hub id, for it may be fetched.

        Raises:
            ModelNotFound: with near names.
        """
        if not (self.is_findable(name) if may_come else self._is_here(name)):
            raise self.not_found(name)

    def not_found(self, name: str) -> ModelNotFound:
        """Return the error for a name that nothing has."""
        return self._catalogue.not_found(name)

    def is_findable(self, name: str) -> bool:
        """Whether a name is an entry's, or has the form of a hub id or a folder."""
        if self._catalogue.find(name) is not None or name.startswith(FOLDER_PREFIXES):
            return True
        repo, separator, revision = name.partition("@")
        return is_hub_id(repo) and (not separator or is_revision(revision))

    def check_local(self, name: str) -> None:
        """Refuse a name that stands for a folder and for nothing in the catalogue.

        Raises:
            NotAllowed: saying what would work.
        """
        if is_local_model(name) and self._catalogue.find(name) is None:
            raise NotAllowed(LOCAL_MODELS_REFUSED)

    def cards(self) -> dict[str, wire.ModelCard]:
        """Describe every catalogue entry without touching its files."""
        return {entry.name: self._card(entry) for entry in self._catalogue.models}

    def defaults(self) -> dict[str, str]:
        """Return which model "auto" stands for now, for each role; see `Role`."""
        return {one: self.resolve(AUTO, one) for one in self._catalogue.defaults}

    def _card(self, entry: Entry) -> wire.ModelCard:
        return wire.ModelCard(
            name=entry.name,
            inputs=list(entry.inputs),
            outputs=products_of(entry.tasks),
            primitives=list(_primitives(entry)),
            labels=list(entry.labels) or None,
            max_sequence_length=entry.max_length,
            size_bytes=sum(one.size_bytes for one in self._catalogue.parts(entry)) or None,
            licence=entry.licence or None,
            description=entry.description or None,
        )

    def _is_here(self, name: str) -> bool:
        """Whether a name is an entry's, or that of a folder or a fetched repository on disk."""
        if self._catalogue.find(name) is not None:
            return True
        if name.startswith(FOLDER_PREFIXES):
            with suppress(ModelNotFound):
                return _model_folder(name).is_dir()
            return False
        repo, _, revision = name.partition("@")
        return find_hub(repo, revision or None, self._cache_dir) is not None


def _model_folder(name: str) -> Path:
    """Return the folder of this path, which says nothing of what else is on the machine."""
    if ".." in Path(name).parts:
        raise ModelNotFound(f"no model {name!r}; name its folder without '..'")
    folder = Path(name).expanduser()
    if not any((folder / file).is_file() for file in _SIGNS):
        raise ModelNotFound(f"no model in folder {name!r}; it would hold {' or '.join(_SIGNS)}")
    return folder


def _primitives(entry: Entry) -> tuple[Primitive, ...]:
    if "pruning" in entry.tasks:
        return ("score", "extract")
    if "cross_encoder" in entry.tasks:
        return ("score",)
    if "classification" in entry.tasks:
        return ("extract", "score")
    if not _EXTRACTING.isdisjoint(entry.tasks):
        return ("extract",)
    return ("encode", "score", "extract") if "image" in entry.inputs else ("encode", "score")
