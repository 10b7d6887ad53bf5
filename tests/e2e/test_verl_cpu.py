"""The plug-in that lets verl train on a CPU, inside the training environment that the pipeline built: real torch, verl and vLLM."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

PLATFORM = """
import torch
from verl.plugin.platform import PlatformRegistry, get_platform
from verl.utils.device import get_device_name, get_torch_device
platform = get_platform()
assert PlatformRegistry.get("cpu") is type(platform), "the entry point was loaded"
assert get_device_name() == "cpu"
assert torch.zeros(1).to(platform.current_device()).device.type == "cpu"
assert platform.current_device() == torch.device("cpu"), "an int would mean an accelerator to Tensor.to()"
assert platform.ray_resource_name() == "NPU"
device = get_torch_device()
free, total = device.mem_get_info()
assert 0 < free <= total and device.memory_allocated() > 0
state = device.get_rng_state()
first = torch.rand(3)
device.set_rng_state(state)
assert torch.equal(first, torch.rand(3))
"""

PROCESS_GROUP = """
import os, socket, torch
import verl_cpu.platform
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("cpu:gloo,cpu:gloo")
assert torch.distributed.get_backend() == "gloo"
value = torch.tensor([3.0])
torch.distributed.all_reduce(value)
assert value.item() == 3.0
torch.distributed.destroy_process_group()
"""

REWARD = r"""
from verl_cpu.reward import compute_score
right, wrong = {"score": 1.0, "acc": 1.0}, {"score": 0.0, "acc": 0.0}
assert compute_score("tiny/sums", r"\boxed{57}", "57") == right
assert compute_score("tiny/sums", r"first \boxed{5} then \boxed{57}", "57") == right, "the last box counts"
assert compute_score("tiny/sums", r"\boxed{58}", "57") == wrong
assert compute_score("tiny/sums", "That makes 57.", "57") == wrong, "the form is part of the task"
assert compute_score("tiny/sums", "", "57") == wrong
"""

REPLAY_BUFFER = """
import inspect
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl_cpu.replay_buffer import POLL_INTERVAL_S, QuickPollReplayBuffer
assert "poll_interval" in inspect.signature(ReplayBuffer.__init__).parameters, "verl renamed what this class sets"
buffer = QuickPollReplayBuffer(
    trainer_mode="sync", trainer_config={}, max_off_policy_threshold=None, max_off_policy_strategy="drop", sampler_kwargs={}
)
assert buffer.poll_interval == POLL_INTERVAL_S < 2.0
"""

VLLM = """
import os
from vllm import _custom_ops
from vllm.platforms import current_platform
import verl_cpu.vllm_plugin as plugin
assert current_platform.is_cpu(), "the distribution vllm names a CPU version"
_custom_ops._supports_onednn = True
os.environ.pop("VERL_PLATFORM", None)
plugin.register()
assert _custom_ops._supports_onednn is True, "a stand-alone server is left alone"
os.environ["VERL_PLATFORM"] = "cpu"
plugin.register()
assert _custom_ops._supports_onednn is False
"""


@pytest.mark.parametrize(
    "script", [PLATFORM, PROCESS_GROUP, REWARD, REPLAY_BUFFER, VLLM], ids=["platform", "process_group", "reward", "buffer", "vllm"]
)
def test_in_the_training_environment(demo: Any, script: str) -> None:
    environment = {**os.environ, **demo.spec.cluster.env, "VERL_PLATFORM": "cpu"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([demo.spec.python("train"), "-c", script], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
