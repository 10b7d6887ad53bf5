"""Shared by all tests: a RunSpec of the real tiny suite, made from the real files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"

# Cluster files take these from the environment; tests never use this folder and these addresses (RFC 5737).
os.environ["VERL_REGRESSION_WORK_DIR"] = "/nowhere/wd"
os.environ |= {f"VERL_REGRESSION_{name}": f"192.0.2.{number}" for number, name in enumerate(("A2_1", "CUDA_1"), 1)}
os.environ |= {f"VERL_REGRESSION_A3_{number}": f"192.0.2.1{number}" for number in (1, 2, 3, 4)}

# Airflow reads these when it is imported first.
os.environ.update(
    AIRFLOW_HOME=tempfile.mkdtemp(prefix="verl-regression-airflow-"),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    PYTHONPATH=f"{ROOT}:{ROOT / 'plugins'}",
)

from include.regression.config import Catalogue, RunSpec, resolve  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/data/golden anew; review the difference by eye")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["AIRFLOW_HOME"], ignore_errors=True)


@pytest.fixture
def spec() -> RunSpec:
    """The tiny suite on the laptop cluster, as the DAG would resolve it."""
    return resolve(Catalogue(), "tiny-1", "tiny_grpo_cpu")
