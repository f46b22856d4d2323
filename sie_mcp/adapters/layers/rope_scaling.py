"""How rotary positions are stretched past the length a model was first trained on.

Sources: linear, kaiokendev 2023; "llama3", the release of Llama 3.1; YaRN, Peng et al. 2023; "ntk",
Su 2023 (kexue.fm/archives/9706), as Alibaba's GTE has it. The keys are those of rope_parameters in
config.json. Knows speeds only, no positions and no model.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from sie_mcp.errors import ModelLoadFailed


class Scaling(Protocol):
    """Changes how fast the pairs of a head turn."""

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""

    def slow(self, speeds: torch.Tensor, theta: float) -> torch.Tensor:
        """Return the new speeds, `(head_dim / 2,)`, fastest first as given."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Every pair turns slower by one factor."""

    factor: float = 1.0
    amplitude: float = 1.0

    def slow(self, speeds: torch.Tensor, theta: float) -> torch.Tensor:
        """Divide by the factor."""
        return speeds / self.factor


@dataclass(frozen=True, slots=True)
class ByWavelength:
    """Llama 3: short waves stay, long ones slow down by the factor, a ramp lies between."""

    factor: float
    low: float
    high: float
    trained_length: float
    amplitude: float = 1.0

    def slow(self, speeds: torch.Tensor, theta: float) -> torch.Tensor:
        """Mix by how many turns a pair makes over the trained length."""
        num_turns = self.trained_length / (2 * math.pi / speeds)
        kept = ((num_turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - kept) * speeds / self.factor + kept * speeds


@dataclass(frozen=True, slots=True)
class Yarn:
    """YaRN: as above, but the ramp is straight over the pairs, and amplitudes grow."""

    factor: float
    fast: float
    slow_turns: float
    trained_length: float
    rounds: bool
    amplitude: float

    def slow(self, speeds: torch.Tensor, theta: float) -> torch.Tensor:
        """Mix by a pair's place between those of `fast` and `slow_turns` turns."""
        num_pairs = len(speeds)
        first = self._pair(self.fast, num_pairs, theta)
        last = self._pair(self.slow_turns, num_pairs, theta)
        if self.rounds:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * num_pairs - 1)
        if first == last:
            last += 0.001  # As the reference, against a division by zero.
        places = torch.arange(num_pairs, dtype=torch.float32, device=speeds.device)
        slowed = ((places - first) / (last - first)).clamp(0, 1)
        return speeds / self.factor * slowed + speeds * (1 - slowed)

    def _pair(self, num_turns: float, num_pairs: int, theta: float) -> float:
        """Return which pair turns that often over the trained length."""
        wavelength = self.trained_length / (num_turns * 2 * math.pi)
        return num_pairs * math.log(wavelength) / math.log(theta)


@dataclass(frozen=True, slots=True)
class Ntk:
    """NTK-aware: pair i of n slows down by factor^((i / n)^bend), the slowest by the factor."""

    factor: float
    bend: float
    amplitude: float = 1.0

    def slow(self, speeds: torch.Tensor, theta: float) -> torch.Tensor:
        """Divide the faster pairs by less."""
        num_pairs = len(speeds)
        pairs = torch.arange(1, num_pairs + 1, dtype=torch.float32, device=speeds.device)
        return speeds / self.factor ** ((pairs / num_pairs) ** self.bend)


def read_scaling(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    """Read one model's scaling from its rotary settings.

    Raises:
        ModelLoadFailed: a kind that we do not know, or one without its keys.
    """
    kind = settings.get("rope_type") or settings.get("type") or "default"
    if kind not in _READERS:
        raise ModelLoadFailed(
            f"config.json: rope_type {kind!r} is not supported; supported: {', '.join(_READERS)}"
        )
    try:
        return _READERS[kind](settings, config)
    except KeyError as error:
        raise ModelLoadFailed(f"config.json: {kind} rope needs {error}") from error


def _default(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    return Linear()


def _dynamic(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    # Starts past max_position_embeddings, where no sequence of ours goes.
    config["max_position_embeddings"]
    return Linear()


def _linear(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    return Linear(float(settings["factor"]))


def _llama3(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    return ByWavelength(
        factor=float(settings["factor"]),
        low=float(settings["low_freq_factor"]),
        high=float(settings["high_freq_factor"]),
        trained_length=_trained_length(settings, config),
    )


def _yarn(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    trained_length = _trained_length(settings, config)
    factor = settings.get("factor") or config["max_position_embeddings"] / trained_length
    return Yarn(
        factor=float(factor),
        fast=float(settings.get("beta_fast") or 32),
        slow_turns=float(settings.get("beta_slow") or 1),
        trained_length=trained_length,
        rounds=bool(settings.get("truncate", True)),
        amplitude=_amplitude(settings, float(factor)),
    )


def _ntk(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling:
    # The authors' formula without mixed_b is that with 1. They scale where the factor makes the
    # longest text longer, so one below 1 scales nothing.
    bend = settings.get("mixed_b")
    factor = max(float(settings["factor"]), 1.0)
    return Ntk(factor, bend=1.0 if bend is None else float(bend))


def _trained_length(settings: Mapping[str, Any], config: Mapping[str, Any]) -> float:
    """Return the length before scaling; the model's own key goes before that of its settings."""
    key = "original_max_position_embeddings"
    return float(config.get(key) or settings.get(key) or config["max_position_embeddings"])


def _amplitude(settings: Mapping[str, Any], factor: float) -> float:
    given = settings.get("attention_factor")
    if given is not None:
        return float(given)
    own, all_dim = settings.get("mscale"), settings.get("mscale_all_dim")
    if own and all_dim:
        return _growth(factor, own) / _growth(factor, all_dim)
    return _growth(factor, 1.0)


def _growth(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Scaling]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "ntk": _ntk,
}
