from __future__ import annotations

from typing import Any

import pytest

from include.regression.config import ConfigError, RunSpec
from include.regression.parsers.facts import check_facts

GOOD = {
    "host": "node-1",
    "pythons": {"python3.11": "3.11.7"},
    "available_memory_gb": 20.0,
    "free_disk_gb": 50.0,
    "work_dir_writable": True,
    "ports_in_use": [],
}


def test_a_good_node_passes(spec: RunSpec) -> None:
    check_facts(spec, GOOD)


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"pythons": {}}, "pythons.3.11", "does not run on node node-1"),
        ({"pythons": {"python3.11": "3.12.1"}}, "pythons.3.11", "is Python 3.12.1 on node node-1; the train environment of v0.9.1"),
        ({"free_disk_gb": 1.5}, "min_disk_gb", "only 1.5 GB are free"),
        ({"available_memory_gb": 2.0}, "min_memory_gb", "only 2.0 GB of memory"),
        ({"work_dir_writable": False}, "work_dir", "cannot be written"),
        ({"ports_in_use": [6380]}, "ray_ports, server_port", "in use on node node-1"),
    ],
)
def test_each_fault_names_field_value_and_fix(spec: RunSpec, change: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_facts(spec, GOOD | change)
    assert caught.value.field == field
    assert problem in str(caught.value)
    assert caught.value.fix
