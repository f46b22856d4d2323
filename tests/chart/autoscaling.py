"""What KEDA and the HorizontalPodAutoscaler make of demand, second by second. Pure.

KEDA takes a target from zero to one, and back to zero after the cooldown; between, the autoscaler
asks for ceil(demand / target) within its tolerance, its policies and its stabilisation
(kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale; keda.sh, "Scaling deployments").
Knows no cluster: a worker is there as soon as it is asked for.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

TOLERANCE = 0.1


class Policy(NamedTuple):
    """So many pods, or so many percent of those there are, in each period."""

    kind: str
    value: int
    period_s: int


@dataclass(frozen=True)
class Scaling:
    """Settings of a ScaledObject."""

    target: float
    most: int
    least: int = 0
    polling_s: int = 5
    cooldown_s: int = 600
    sync_s: int = 15
    up: Sequence[Policy] = (Policy("Percent", 100, 15), Policy("Pods", 4, 15))
    down: Sequence[Policy] = (Policy("Pods", 1, 60),)
    up_window_s: int = 0
    down_window_s: int = 300


@dataclass
class Autoscaler:
    """One target. Ask it once a second, with a time that grows."""

    scaling: Scaling
    replicas: int = 0
    _active_s: float = -math.inf
    _wishes: list[tuple[int, int]] = field(default_factory=list)
    _steps: list[tuple[int, int]] = field(default_factory=list)

    def step(self, now_s: int, demand: float) -> int:
        """Return how many workers there should be now."""
        if now_s % self.scaling.polling_s == 0:
            self._keda(now_s, demand)
        if self.replicas and now_s % self.scaling.sync_s == 0:
            before, self.replicas = self.replicas, self._hpa(now_s, demand)
            self._steps.append((now_s, self.replicas - before))
        return self.replicas

    def _keda(self, now_s: int, demand: float) -> None:
        floor = self.scaling.least
        if demand > 0:
            self._active_s = now_s
            self.replicas = max(self.replicas, floor, 1)
        elif floor == 0 and now_s - self._active_s >= self.scaling.cooldown_s:
            self.replicas = 0
            self._wishes.clear()
        self.replicas = max(self.replicas, floor)

    def _hpa(self, now_s: int, demand: float) -> int:
        scaling, now = self.scaling, self.replicas
        ratio = demand / (scaling.target * now)
        wish = now if abs(ratio - 1) <= TOLERANCE else math.ceil(demand / scaling.target)
        self._wishes.append((now_s, min(max(wish, scaling.least, 1), scaling.most)))
        wishes = self._wishes
        wish = min(
            max(now, min(w for at_s, w in wishes if at_s >= now_s - scaling.up_window_s)),
            max(w for at_s, w in wishes if at_s >= now_s - scaling.down_window_s),
        )
        if wish > now:
            return min(wish, max(self._reach(p, now_s, up=True) for p in scaling.up))
        return max(wish, min(self._reach(p, now_s, up=False) for p in scaling.down))

    def _reach(self, policy: Policy, now_s: int, *, up: bool) -> int:
        """Return how far a policy lets the count go.

        From what it was a period ago, by the autoscaler's own steps: KEDA's are not among them.
        """
        own = sum(step for at_s, step in self._steps if at_s > now_s - policy.period_s)
        before = self.replicas - own
        step = policy.value if policy.kind == "Pods" else math.ceil(before * policy.value / 100)
        return before + step if up else max(before - step, 0)


def changes(scaling: Scaling, demand: Sequence[float], replicas: int = 0) -> list[tuple[int, int]]:
    """Return when the count changed and to what, for the demand of each second."""
    scaler = Autoscaler(scaling, replicas)
    counts = [replicas] + [scaler.step(now_s, one) for now_s, one in enumerate(demand)]
    return [(n, b) for n, (a, b) in enumerate(itertools.pairwise(counts)) if a != b]
