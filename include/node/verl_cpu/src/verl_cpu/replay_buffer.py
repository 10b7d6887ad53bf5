"""Replay buffer of verl's v1 trainer for steps of seconds instead of minutes.

Selected by ``trainer.v1.sampler.custom_sampler.{path,name}``, verl's own hook for such a class.
"""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

POLL_INTERVAL_S = 0.05


class QuickPollReplayBuffer(ReplayBuffer):
    """The built-in buffer, asking for finished rollouts every 50 ms.

    The built-in one sleeps 2 s between looks (``poll_interval`` in verl/trainer/ppo/v1/replay_buffer.py; no option
    reaches it), which is most of a step of the tiny model.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(poll_interval=POLL_INTERVAL_S, **kwargs)
