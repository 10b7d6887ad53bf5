"""The inference server: vLLM's OpenAI API, started from the training environment with the reference procedure's flags."""

from __future__ import annotations

import json

from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import RunSpec

SERVED_NAME = "auto"
HOST = "127.0.0.1"


def job(which: str) -> str:
    """Name of the server's job, for ``base`` or ``trained``."""
    return f"server-{which}"


def expected(spec: RunSpec, model_dir: str) -> dict[str, object]:
    """What /v1/models must show for this run."""
    return {"id": SERVED_NAME, "root": model_dir, "max_model_len": spec.suite.lengths.max_model_len}


def server(spec: RunSpec, model_dir: str) -> list[str]:
    """Command line of the server. Lengths come from the suite's one place, ``lengths``."""
    serving, length = spec.suite.serving, spec.suite.lengths.max_model_len
    command = [
        spec.python("train"),
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={model_dir}",
        f"--served-model-name={SERVED_NAME}",
        f"--gpu-memory-utilization={serving.gpu_memory_utilization}",
        f"--max-num-seqs={serving.max_num_seqs}",
        f"--max-model-len={length}",
        f"--max-num-batched-tokens={length}",
        "--enforce-eager",
        "--trust-remote-code",
        "--distributed_executor_backend=mp",
        f"--tensor-parallel-size={spec.serving_tensor_parallel}",
        f"--data-parallel-size={serving.data_parallel}",
        "--generation-config=vllm",
        f"--dtype={serving.dtype}",
        f"--seed={spec.suite.evaluation.seed}",
        f"--host={HOST}",
        f"--port={spec.cluster.server_port}",
    ]
    if spec.suite.stack == "cpu":
        # A seeded request that is prefilled in parts ends vLLM 0.28's CPU worker: "CPU Generator does not use offset"
        # (vllm/v1/worker/gpu_model_runner.py rewinds the generator, which only CUDA's can).
        command.append("--no-enable-chunked-prefill")
    return command


def start(spec: RunSpec, which: str, model_dir: str) -> Command:
    """Start the server for ``which`` model and wait until it is ready (result: include/node/serve.py)."""
    ready_s = spec.suite.serving.ready_timeout_s
    arguments = [
        "--job",
        f"{spec.run}/{job(which)}",
        "--port",
        str(spec.cluster.server_port),
        "--log",
        f"{spec.run_dir}/serving/{which}.log",
        "--timeout",
        str(ready_s),
        "--expect",
        json.dumps(expected(spec, model_dir)),
    ]
    script = node_script(spec, "serve", *arguments, "--", *server(spec, model_dir))
    return Command(script, job_environment(spec, job(which)), ready_s + 120)
