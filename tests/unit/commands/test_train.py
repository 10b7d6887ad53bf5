"""The training's Ray job."""

from __future__ import annotations

from include.regression.commands import ray, train
from include.regression.config import Node, RunSpec


def test_attempts_share_no_folder_and_nothing_is_resumed(spec: RunSpec) -> None:
    first, second = train.job(spec, 1), train.job(spec, 2)
    assert first.submission_id != second.submission_id
    assert first.metrics_file != second.metrics_file
    assert train.overrides(spec, 1)["trainer.default_local_dir"] != train.overrides(spec, 2)["trainer.default_local_dir"]
    assert train.overrides(spec, 1)["trainer.resume_mode"] == "disable"
    assert first.checkpoint_dir.startswith(str(train.overrides(spec, 1)["trainer.default_local_dir"]))


def test_values_are_spelled_as_hydra_reads_them() -> None:
    assert train.render({"a.b": True, "c": 1e-3, "d": "x", "e": 4}) == ["a.b=true", "c=0.001", "d=x", "e=4"]


def test_the_suite_has_the_last_word(spec: RunSpec) -> None:
    assert train.overrides(spec, 1)["reward.custom_reward_function.path"] == "pkg://verl_cpu.reward"


def test_workers_get_their_variables_through_the_job(spec: RunSpec) -> None:
    variables = train.job(spec, 1).runtime_env["env_vars"]
    assert variables["VERL_PLATFORM"] == "cpu"
    assert variables["OMP_NUM_THREADS"] == "1"
    assert variables["VERL_FILE_LOGGER_PATH"].endswith("/training/attempt-1/metrics.jsonl")
    assert variables["VERL_REGRESSION_JOB"] == "tiny-1/train"


def test_the_ray_head_stays_on_loopback_with_a_token(spec: RunSpec) -> None:
    command = ray.start(spec, spec.cluster.head)
    assert command.environment["RAY_AUTH_MODE"] == "token"
    assert command.environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert "--node-ip-address=127.0.0.1" in command.script
    assert '"NPU": 1' in command.script
    # 107 bytes are all that a Unix socket's path may have; Ray adds about 75.
    assert len(ray.temp_dir(spec)) < 32


def test_a_worker_joins_the_head_from_its_own_address_and_nic(spec: RunSpec) -> None:
    nodes = tuple(Node(name=f"n{number}", ssh_conn_id="x", address=f"10.0.0.{number}", devices=1, nic="eth1") for number in (1, 2))
    wide = spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"nodes": nodes})})
    head, worker = (ray.start(wide, node) for node in nodes)
    assert "--head" in head.script
    assert "--head" not in worker.script
    assert "--token" not in worker.script, "there is one token, and the head makes it"
    assert "--address=10.0.0.1:6366 " in worker.script
    assert "--node-ip-address=10.0.0.2 " in worker.script
    assert worker.environment["HCCL_IF_IP"] == "10.0.0.2"
    assert worker.environment["GLOO_SOCKET_IFNAME"] == "eth1"
    # What a job sets for all nodes must not hold one node's address.
    assert "HCCL_IF_IP" not in train.job(wide, 1).runtime_env["env_vars"]
    assert "--watch 40" in ray.prove(wide).script
    assert "--watch" not in ray.prove(spec).script
