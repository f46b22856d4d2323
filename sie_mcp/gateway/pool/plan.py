"""Which pools there are and which models run where, as a file says. Pure.

```toml
default = "l4"

[pools.l4]
workers = ["dns://sie-l4.models.svc:9000"]
slots = 32

[pools.l4-spot]
service = "models/sie-l4-spot"  # followed by the API of Kubernetes; or "models/sie-l4-spot:http"
slots = 32

[models]                        # first choice first; those that are not named run in the default
"BAAI/bge-m3" = ["l4-spot", "l4"]
```
"""

import tomllib
from pathlib import Path

import pydantic
from pydantic import ConfigDict, Field

from sie_mcp.errors import SettingError

DEFAULT = "default"
MAX_POOLS = 64


class PoolPlan(pydantic.BaseModel):
    """One pool: where its workers are, and how many requests each runs well side by side.

    Attributes:
        workers: Their URLs, or one `dns://host:port`.
        service: Instead, a Service of Kubernetes as `namespace/name` or `namespace/name:port`.
    """

    model_config = ConfigDict(extra="forbid")

    workers: list[str] = Field(default=[], min_length=1, max_length=1_024)
    service: str | None = None
    slots: int = Field(default=8, ge=1, le=4_096)

    @pydantic.model_validator(mode="after")
    def _has_one_place(self) -> "PoolPlan":
        if bool(self.workers) == (self.service is not None):
            raise ValueError("give either workers or service")
        return self


class Plan(pydantic.BaseModel):
    """All pools, and the pools of models that do not run in the default one."""

    model_config = ConfigDict(extra="forbid")

    default: str = DEFAULT
    pools: dict[str, PoolPlan] = Field(min_length=1, max_length=MAX_POOLS)
    models: dict[str, list[str]] = {}

    @pydantic.model_validator(mode="after")
    def _names_fit(self) -> "Plan":
        named = {self.default, *(name for names in self.models.values() for name in names)}
        unknown = sorted(named - self.pools.keys())
        if unknown:
            raise ValueError(f"no pool {', '.join(unknown)}; there are: {', '.join(self.pools)}")
        if any(not names for names in self.models.values()):
            raise ValueError("a model of no pool cannot run anywhere; leave it out for the default")
        return self

    def pools_of(self, model: str, chosen: str | None) -> list[str]:
        """Return the pools of a request, first choice first.

        Args:
            model: As the caller names it.
            chosen: The pool that the caller chose, if any.

        Raises:
            KeyError: there is no such pool.
        """
        if chosen is not None:
            self.pools[chosen]
            return [chosen]
        return self.models.get(model, [self.default])

    def models_of(self, pool: str) -> list[str]:
        """Return the models that are named for a pool."""
        return [model for model, names in self.models.items() if pool in names]


def read_plan(path: Path) -> Plan:
    """Read a file of pools.

    Raises:
        SettingError: it cannot be read, or is not what it should be.
    """
    try:
        return Plan.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise SettingError(f"pools_file: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, pydantic.ValidationError) as error:
        raise SettingError(f"pools_file {path}: {error}") from error


def plan_of(workers: list[str], slots: int) -> Plan:
    """Return the plan of one pool."""
    return Plan(pools={DEFAULT: PoolPlan(workers=workers, slots=slots)})
