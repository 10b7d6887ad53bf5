"""vLLM general plug-in (entry point group ``vllm.general_plugins``; vLLM calls it in each of its processes)."""

from __future__ import annotations

import os


def register() -> None:
    """Keep the weights of vLLM's linear layers as they were loaded, in the rollout workers of a CPU training.

    vLLM's CPU linear layers re-pack their weights for oneDNN and drop the originals
    (``dispatch_cpu_unquantized_gemm`` in vllm/model_executor/layers/utils.py), so verl's weight sync finds nothing to
    write to ("'Parameter' object has no attribute 'weight_loader'"). Without oneDNN they compute with torch on the live
    weight. A stand-alone server never syncs weights and is left alone: only training sets VERL_PLATFORM.
    """
    if os.environ.get("VERL_PLATFORM") == "cpu":
        from vllm import _custom_ops

        _custom_ops._supports_onednn = False
