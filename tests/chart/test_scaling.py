"""How pools grow and sleep: demand replayed through KEDA's and the autoscaler's rules."""

import itertools
import math

import pytest

from tests.chart.autoscaling import Policy, Scaling, changes
from tests.chart.rendering import of_kind, rendered

# A run on a real control plane with KEDA 2.20.1: 60 callers for 40 s at a pool that slept went
# 0, 1, 5, 8, and 8, 6, 4, 0 once they had gone. Recorded of it: target, most, polling, sync and
# cooldown. Its policy downwards was not; two in ten seconds, at once, is what fits all its steps.
RUN = Scaling(
    target=8, most=8, polling_s=2, cooldown_s=20, sync_s=5,
    down=(Policy("Pods", 2, 10),), down_window_s=0,
)  # fmt: skip


def counts(scaling: Scaling, demand: list[float], replicas: int = 0) -> list[int]:
    return [replicas] + [count for _, count in changes(scaling, demand, replicas)]


def of_chart(pool: str, values: str) -> Scaling:
    """Read a ScaledObject as the chart renders it."""
    (it,) = [
        one["spec"]
        for one in of_kind(rendered(values), "ScaledObject")
        if one["metadata"]["labels"]["sie-mcp/pool"] == pool
    ]
    behavior = it["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    policies = {
        way: tuple(
            Policy(one["type"], one["value"], one["periodSeconds"])
            for one in behavior[way]["policies"]
        )
        for way in ("scaleUp", "scaleDown")
    }
    return Scaling(
        target=float(it["triggers"][0]["metadata"]["threshold"]),
        most=it["maxReplicaCount"],
        least=it["minReplicaCount"],
        polling_s=it["pollingInterval"],
        cooldown_s=it["cooldownPeriod"],
        up=policies["scaleUp"],
        down=policies["scaleDown"],
        up_window_s=behavior["scaleUp"]["stabilizationWindowSeconds"],
        down_window_s=behavior["scaleDown"]["stabilizationWindowSeconds"],
    )


def test_the_recorded_run_comes_out_as_it_was():
    demand = [0.0] * 3 + [60.0] * 40 + [0.0] * 60
    assert counts(RUN, demand) == [0, 1, 5, 8, 6, 4, 0]


def test_the_recorded_fall_of_load_comes_out_as_it_was():
    assert counts(RUN, [6.0] * 120, replicas=8) == [8, 6, 4, 2, 1]


def test_detection_and_growth_of_the_run_are_as_fast_as_they_were():
    steps = changes(RUN, [0.0] * 3 + [60.0] * 40)
    woke_s = steps[0][0] - 3
    assert woke_s <= RUN.polling_s
    assert steps[-1] == (pytest.approx(25, abs=5), 8)


def test_a_pool_of_the_chart_wakes_in_one_poll_and_is_whole_in_45_s():
    scaling = of_chart("l4-spot", "l4-spot")
    steps = changes(scaling, [0.0] + [scaling.target * 8] * 60)
    assert steps[0][0] - 1 <= scaling.polling_s
    assert [count for _, count in steps] == [1, 5, 8]
    assert steps[-1][0] - 1 <= 45


def test_a_pool_of_the_chart_does_not_follow_a_dip_and_leaves_one_by_one():
    scaling = of_chart("l4-spot", "l4-spot")
    full, few = scaling.target * 8, 1.0
    assert counts(scaling, [full] * 60 + [few] * 240 + [full] * 60)[-1] == 8
    steps = [at_s for at_s, _ in changes(scaling, [few] * 900, replicas=8)]
    assert all(b - a >= 60 for a, b in itertools.pairwise(steps))


def test_a_pool_of_the_chart_sleeps_after_its_cooldown_and_not_before():
    scaling = of_chart("l4-spot", "l4-spot")
    steps = changes(scaling, [1.0] * 10 + [0.0] * 700)
    asleep_s = steps[-1][0] - 10
    assert steps[-1][1] == 0
    assert scaling.cooldown_s - scaling.polling_s <= asleep_s
    assert asleep_s <= scaling.cooldown_s + scaling.polling_s


def test_a_warm_floor_is_never_left():
    scaling = of_chart("cpu", "multi-pool")
    assert scaling.least == 1
    assert min(counts(scaling, [20.0] * 60 + [0.0] * 1_500, replicas=1)) == 1


def test_demand_of_a_moment_is_seen_by_the_next_poll():
    """The query looks 30 s back, and gateways count a pool as wanted for 30 s."""
    scaling = of_chart("l4-spot", "l4-spot")
    assert scaling.polling_s < 30
    assert counts(scaling, [0.0] * 6 + [1.0] * 30 + [0.0] * 30) == [0, 1]


@pytest.mark.parametrize("pod_s, load_s", [(2.0, 1.5), (90.0, 20.0)])
def test_a_cold_start_is_the_pod_and_the_load_and_few_seconds_of_finding_out(pod_s, load_s):
    """Worst cases of each part, in seconds. DNS is the largest: resolvers keep a "no" for 5 s."""
    scaling = of_chart("l4-spot", "l4-spot")
    (worker,) = [
        one
        for one in of_kind(rendered("l4-spot"), "Deployment")
        if one["metadata"]["name"].endswith("-pool-l4-spot")
    ]
    spec = worker["spec"]["template"]["spec"]
    readiness = spec["containers"][0]["readinessProbe"]["periodSeconds"]
    found_out_s = scaling.polling_s + readiness + 5.0 + 2.0 + 0.25
    assert found_out_s <= 15.0
    budget_s = spec["containers"][0]["startupProbe"]["failureThreshold"] * 2
    assert pod_s + load_s + found_out_s < budget_s <= scaling.cooldown_s


def test_more_than_the_most_is_never_asked_for():
    scaling = of_chart("l4-spot", "l4-spot")
    assert max(counts(scaling, [1e6] * 300)) == scaling.most
    assert math.isfinite(scaling.target)
