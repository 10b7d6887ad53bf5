"""One repeat of one data set: the client's configuration and its command line."""

from __future__ import annotations

import hashlib
import json
import shlex

from include.regression.commands.serve import HOST, SERVED_NAME, expected, server
from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import RunSpec

#: Name of the generated configuration and of the model in ais_bench's results.
CONFIG_NAME = "regression_server"
MODEL_ABBR = "vllm-api-stream-chat"


def repeat_dir(spec: RunSpec, which: str, dataset: str, number: int, attempt: int) -> str:
    return f"{spec.run_dir}/evaluation/{which}/{dataset}/repeat-{number}/attempt-{attempt}"


def seed_of(spec: RunSpec, number: int) -> int | None:
    """Seed that is sent with every request of a repeat, or None.

    vLLM draws a request's tokens from the request's own seed, and the client sends the same one with every question: sampled
    answers would rise and fall together (seen: repeats of 75 % and 0 % of the same model). So a seed is sent at temperature 0
    only, as in the reference procedure; sampled requests draw from the server's generator, which was seeded at its start.
    """
    return spec.suite.evaluation.seed + number if spec.suite.evaluation.temperature == 0 else None


def client_config(spec: RunSpec, model_dir: str, number: int) -> str:
    """Render ais_bench's model configuration (3.1: class VLLMCustomAPIChat), a Python file.

    It lies in the repeat's own folder (``--config-dir``), never inside the package. ``path`` is the folder of the tokenizer.
    ``max_out_len`` is the suite's output length; the server was started with input + output.
    """
    evaluation, seed = spec.suite.evaluation, seed_of(spec, number)
    fields: dict[str, object] = {
        "attr": "service",
        "abbr": MODEL_ABBR,
        "path": model_dir,
        "model": SERVED_NAME,
        "stream": True,
        "request_rate": 0,
        "use_timestamp": False,
        "retry": 2,
        "api_key": "",
        "host_ip": HOST,
        "host_port": spec.cluster.server_port,
        "url": "",
        "max_out_len": spec.suite.lengths.output,
        "batch_size": evaluation.concurrency,
        "trust_remote_code": False,
        "generation_kwargs": {
            "temperature": evaluation.temperature,
            "top_p": evaluation.top_p,
            **({} if seed is None else {"seed": seed}),
        },
    }
    lines = [f"        {key}={value!r}," for key, value in fields.items()]
    return "\n".join(
        [
            "from ais_bench.benchmark.models import VLLMCustomAPIChat",
            "from ais_bench.benchmark.utils.postprocess.model_postprocessors import extract_non_reasoning_content",
            "",
            "models = [",
            "    dict(",
            "        type=VLLMCustomAPIChat,",
            *lines,
            "        pred_postprocessor=dict(type=extract_non_reasoning_content),",
            "    )",
            "]",
            "",
        ]
    )


def repeat(spec: RunSpec, which: str, model_dir: str, dataset: str, number: int, attempt: int) -> Command:
    """Run one repeat in a fresh folder (result: include/node/evaluate.py)."""
    the_set = spec.dataset(dataset)
    folder = repeat_dir(spec, which, dataset, number, attempt)
    client = [
        f"{spec.environment_dir('eval')}/bin/ais_bench",
        "--config-dir",
        f"{folder}/config",
        "--models",
        CONFIG_NAME,
        "--datasets",
        the_set.config,
        "--work-dir",
        f"{folder}/out",
        "--dump-eval-details",
    ]
    timeout_s = spec.suite.evaluation.timeout_min * 60
    arguments = ["--folder", folder, "--port", str(spec.cluster.server_port), "--timeout", str(timeout_s)]
    arguments += ["--expect", json.dumps(expected(spec, model_dir))]
    arguments += ["--model-abbr", MODEL_ABBR, "--dataset-abbr", the_set.abbr, "--", *client]
    quoted = shlex.quote(folder)
    script = "\n".join(
        [
            f"rm -rf {quoted} && mkdir -p {quoted}/config/models",
            f"cat > {quoted}/config/models/{CONFIG_NAME}.py <<'END_OF_CONFIG'",
            client_config(spec, model_dir, number) + "END_OF_CONFIG",
            node_script(spec, "evaluate", *arguments),
        ]
    )
    variables = job_environment(spec, f"evaluation-{which}-{dataset}-{number}")
    variables["AIS_BENCH_DATASETS_CACHE"] = spec.suite.evaluation.data_root or f"{spec.data_dir}/evaluation"
    return Command(script, variables, timeout_s + 120)


def base_fingerprint(spec: RunSpec, data_hash: str) -> str:
    """Hash everything that decides the base model's score; runs with the same value share its evaluation.

    ``data_hash`` stands for the weights and the questions; server and client are taken as they are rendered, so that a change of
    either command makes the base model be evaluated anew.
    """
    decisive = {
        "data": data_hash,
        "server": server(spec, spec.base_model),
        "client": client_config(spec, spec.base_model, 1),
        "datasets": [dataset.model_dump() for dataset in spec.suite.evaluation.datasets],
        "locks": [spec.stack.train_lock, spec.stack.eval_lock],
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
