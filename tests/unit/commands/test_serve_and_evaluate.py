"""Server and client are rendered from the same lengths, and the client's configuration is a file that ais_bench could read."""

from __future__ import annotations

import ast
import shlex
import subprocess
from typing import Any

import pytest

from include.regression.commands import convert, data, environments, evaluate, serve
from include.regression.config import ConfigError, RunSpec


def test_the_server_has_the_flags_of_the_reference_procedure(spec: RunSpec) -> None:
    command = serve.server(spec, "/weights")
    for flag in (
        "--model=/weights",
        "--served-model-name=auto",
        "--gpu-memory-utilization=0.9",
        "--max-num-seqs=24",
        "--max-model-len=512",
        "--max-num-batched-tokens=512",
        "--enforce-eager",
        "--trust-remote-code",
        "--distributed_executor_backend=mp",
        "--tensor-parallel-size=1",
        "--data-parallel-size=1",
        "--generation-config=vllm",
        "--host=127.0.0.1",
        "--port=6380",
    ):
        assert flag in command
    assert command[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert command[0] == spec.python("train"), "the server runs in the training environment"


def config_fields(text: str) -> dict[str, Any]:
    """Read the generated configuration's literal fields without importing ais_bench."""
    call = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict")
    return {
        str(keyword.arg): ast.literal_eval(keyword.value)
        for keyword in call.keywords
        if keyword.arg not in ("type", "pred_postprocessor")
    }


def test_the_client_asks_for_what_the_server_can_give(spec: RunSpec) -> None:
    fields = config_fields(evaluate.client_config(spec, "/weights", 2))
    assert fields["max_out_len"] == spec.suite.lengths.output
    assert spec.suite.lengths.input + spec.suite.lengths.output == serve.expected(spec, "/weights")["max_model_len"]
    assert fields["host_port"] == spec.cluster.server_port
    assert fields["generation_kwargs"] == {"temperature": 1.0, "top_p": 1.0}
    assert "max_seq_len" not in fields, "AISBench 3.1 refuses it, with exit status 0"


def test_sampled_questions_do_not_share_one_seed(spec: RunSpec) -> None:
    """Seen: with one seed for all requests, a repeat scored 75 % and the next 0 %, the questions rising and falling together."""
    assert evaluate.seed_of(spec, 2) is None
    greedy = spec.suite.evaluation.model_copy(update={"temperature": 0.0})
    at_zero = spec.model_copy(update={"suite": spec.suite.model_copy(update={"evaluation": greedy})})
    assert evaluate.seed_of(at_zero, 2) == 1236
    assert config_fields(evaluate.client_config(at_zero, "/weights", 2))["generation_kwargs"]["seed"] == 1236


def test_repeats_and_attempts_have_folders_of_their_own(spec: RunSpec) -> None:
    folders = {
        evaluate.repeat_dir(spec, which, dataset, number, attempt)
        for which in ("base", "trained")
        for dataset in ("aime2024", "math500")
        for number in (1, 2)
        for attempt in (1, 2)
    }
    assert len(folders) == 16


def test_an_unknown_data_set_is_refused(spec: RunSpec) -> None:
    with pytest.raises(ConfigError, match="did you mean 'aime2024'"):
        evaluate.repeat(spec, "base", "/weights", "aime2042", 1, 1)


def test_the_base_fingerprint_changes_with_what_decides_the_score(spec: RunSpec) -> None:
    one = evaluate.base_fingerprint(spec, "data")
    assert one == evaluate.base_fingerprint(spec.model_copy(update={"run": "another"}), "data")
    assert one != evaluate.base_fingerprint(spec, "other data")
    warmer = spec.suite.evaluation.model_copy(update={"temperature": 0.5})
    suite = spec.suite.model_copy(update={"evaluation": warmer})
    assert one != evaluate.base_fingerprint(spec.model_copy(update={"suite": suite}), "data")


def test_every_script_is_valid_bash_whatever_the_paths(spec: RunSpec) -> None:
    work_dir = "/tmp/it's $(touch x); z"
    evil = spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"work_dir": work_dir})})
    for command in (
        environments.build(evil, "train"),
        environments.stop(evil, job="ray"),
        data.prepare(evil),
        convert.merge(evil, f"{evil.run_dir}/ckpt"),
        serve.start(evil, "base", evil.base_model),
        evaluate.repeat(evil, "base", evil.base_model, "aime2024", 1, 1),
    ):
        checked = subprocess.run(["bash", "-n", "-c", command.script], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        for line in command.script.splitlines():
            words = shlex.split(line) if "END_OF_CONFIG" not in line and not line.startswith(" ") else []
            assert all(work_dir in word for word in words if "$(touch" in word), "a path was split: it left its quotes"


def test_fsdp_needs_no_weight_conversion_and_says_why(spec: RunSpec) -> None:
    reason = convert.why_no_weight_conversion(spec)
    assert reason is not None
    assert "FSDP" in reason
