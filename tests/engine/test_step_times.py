from sie_mcp.engine.step_times import StepTimes


def test_every_step_has_its_own_time_and_none_is_counted_twice():
    times = StepTimes(
        started_s=10.0, ready_s=10.5, prepared_s=10.75, queue_s=1.0, ran_s=14.75, ended_s=15.0
    )
    timing = times.timing()
    assert timing.total_ms == 5_000
    assert timing.tokenization_ms == 250
    assert timing.queue_ms == 1_000
    assert timing.inference_ms == 3_000
    assert timing.postprocessing_ms == 250
