"""What the parts of the evaluation share: where models lie, and the rows and figures so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evals.families import compare, sources
from evals.families.compare import Reference, Rows
from evals.families.memory import Load
from evals.figures import Figure
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.create import read_recipe
from sie_mcp.catalogue.fetch import fetch_entry
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.catalogue.options import FetchOptions


@dataclass(frozen=True, slots=True)
class Row:
    """One folder in our loader against a library's class on the same weights.

    Attributes:
        layout: What the weights are stored as where they come from.
        max_difference: Over the dense vectors and the unit vectors of all tokens, in one batch
            and alone.
        source_difference: To our own vectors of the model that the weights were taken from.
    """

    model: str
    family: str
    layout: str
    class_name: str
    library: str
    version: str
    num_texts: int
    max_difference: float
    min_cosine: float
    source_difference: float | None = None

    @property
    def is_right(self) -> bool:
        """Within the tests' tolerance of both."""
        worst = max(self.max_difference, self.source_difference or 0.0)
        return worst <= compare.TOLERANCE


@dataclass(slots=True)
class Kit:
    """Finds models, compares them, and collects.

    Attributes:
        work: A folder for what is converted.
        with_references: Measure the figures by the libraries too.
        only_loads: Measure what loads take, and nothing else.
    """

    cache_dir: Path
    options: FetchOptions
    work: Path
    texts: Sequence[str]
    with_references: bool = False
    only_loads: bool = False
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    loads: dict[str, Load] = field(default_factory=dict)

    def starter(self, name: str) -> Path:
        """Return the folder of a catalogue model."""
        entry = load_catalogue().find(name)
        assert entry is not None
        return fetch_entry(entry, self.cache_dir, options=self.options)

    def package(self, name: str) -> Path:
        """Return the folder of one of our own packages."""
        return sources.fetch(name, self.cache_dir, self.options)

    def compare(
        self,
        model: str,
        layout: str,
        folder: Path,
        adapter: Adapter,
        reference: Reference,
        *,
        compute: Callable[..., Rows] = compare.ours,
        source: Rows | None = None,
    ) -> Rows:
        """Add a row; return our vectors, for models made of this one."""
        texts = self.texts[: len(reference.rows)]
        together = compute(adapter, texts)
        worst, lowest = compare.difference(together, reference.rows)
        single = compare.difference(compare.alone(adapter, texts, compute), reference.rows)
        row = Row(
            model=model,
            family=read_recipe(model, folder, None).architecture,
            layout=layout,
            class_name=reference.class_name,
            library=reference.library,
            version=reference.version,
            num_texts=len(texts),
            max_difference=max(worst, single[0]),
            min_cosine=min(lowest, single[1]),
            source_difference=source and compare.difference(together, source[: len(texts)])[0],
        )
        self.rows.append(row)
        print(f"{model}: {row.max_difference:.1e}", flush=True)
        return together
