"""Names of the verl metrics that the regression reads (verl/trainer/ppo/metric_utils.py; unchanged from v0.4.0 to v0.9.1)."""

#: Mean reward of the step's samples: higher is better.
REWARD = "critic/rewards/mean"
#: Tokens per second and device, end to end.
THROUGHPUT = "perf/throughput"
#: Seconds that a step spent on validation and on saving a checkpoint; whether TIME_PER_STEP counts them differs between releases.
EXTRA_WORK = ("timing_s/testing", "timing_s/save_checkpoint")
#: Seconds of the whole step.
TIME_PER_STEP = "perf/time_per_step"
