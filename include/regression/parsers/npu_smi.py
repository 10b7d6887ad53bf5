"""``npu-smi info``: the chips of a node, their health, their memory and who uses them.

Read are the tables of Atlas A2 (one chip per NPU) and A3 (two, with a Phy-ID), narrow ones of old drivers, and those of drivers
from 26.0 on with the column "Process id in container". The messages of a failing npu-smi are those of its own library (dcmi).
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: Share of its HBM that an idle chip may use. Drivers keep 4 to 9 % (2847 of 32768 MB, 3377 of 65536 MB seen).
IDLE_SHARE = 0.10

FAULTS = {
    "-8005": "the driver cannot be reached: the devices are not mounted in this container, or another one holds them",
    "-8020": "the devices are held by another container, or this one was not given all of them",
}

_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:")
_BUS_ID = re.compile(r"^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_USED_OF_TOTAL = re.compile(r"(\d+)\s*/\s*(\d+)\s*$")


class NpuSmiFailed(Exception):
    """npu-smi gave no table; the message says why. ``fault`` is ``missing``, ``library`` or dcmi's own code, such as "-8005"."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class Process(NamedTuple):
    """A process on a chip. ``name`` may be empty; ``in_container`` is its id there, where the driver says it."""

    npu: int
    chip: int
    pid: int
    name: str
    memory_mb: int
    in_container: int | None


class Chip(NamedTuple):
    """A chip: what verl and Ray count as a device. ``health`` is OK, Warning, Alarm, Critical or UNKNOWN."""

    npu: int
    chip: int
    name: str
    health: str
    hbm_used_mb: int
    hbm_total_mb: int


class NpuSmi(NamedTuple):
    """What npu-smi shows. ``version`` is the driver's (HDK)."""

    version: str
    chips: tuple[Chip, ...]
    processes: tuple[Process, ...]

    @property
    def unhealthy(self) -> list[Chip]:
        return [chip for chip in self.chips if chip.health != "OK"]

    @property
    def busy(self) -> list[Chip]:
        """Chips with a process, or with more HBM in use than an idle one: in a container the process table may be empty."""
        used = {(process.npu, process.chip) for process in self.processes}
        return [chip for chip in self.chips if (chip.npu, chip.chip) in used or chip.hbm_used_mb > IDLE_SHARE * chip.hbm_total_mb]


def parse_npu_smi(text: str) -> NpuSmi:
    """Read the output of ``npu-smi info``. Raises NpuSmiFailed if it holds no table of chips."""
    version = _VERSION.search(text)
    chips: list[Chip] = []
    processes: list[Process] = []
    above: list[str] = []
    in_processes = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if len(cells) > 1 and cells[1].startswith("Process id"):
            in_processes = True
        elif in_processes:
            processes += _process(cells)
        elif len(cells) == 3 and _BUS_ID.match(cells[1]):
            chips.append(_chip(above, cells))
        above = cells
    if version is None or not chips:
        raise _failure(text)
    return NpuSmi(version[1], tuple(chips), tuple(processes))


def _chip(first: list[str], second: list[str]) -> Chip:
    """Read the two lines of a chip: "NPU Name | Health | ..." and "Chip [Phy-ID] | Bus-Id | ... HBM-Usage"."""
    npu, _, name = first[0].partition(" ")
    usage = _USED_OF_TOTAL.search(second[2])
    if not usage:
        raise NpuSmiFailed("format", f"npu-smi shows no HBM usage in {second[2]!r}")
    return Chip(int(npu), int(second[0].split()[0]), name.strip(), first[1], int(usage[1]), int(usage[2]))


def _process(cells: list[str]) -> list[Process]:
    if len(cells) < 4 or not cells[1].isdigit():
        return []
    npu, chip = cells[0].split()
    inside = int(cells[4]) if len(cells) > 4 and cells[4].isdigit() else None
    return [Process(int(npu), int(chip), int(cells[1]), cells[2], int(cells[3]), inside)]


def _failure(text: str) -> NpuSmiFailed:
    last = text.strip().splitlines()[-1:] or ["no output"]
    for code, meaning in FAULTS.items():
        if f"ret is {code}" in text:
            return NpuSmiFailed(code, f"{meaning} ({last[0]})")
    if "command not found" in text or "No such file or directory: 'npu-smi'" in text:
        return NpuSmiFailed("missing", "npu-smi is not installed, or not on the PATH of a non-interactive shell")
    if "error while loading shared libraries" in text:
        return NpuSmiFailed("library", f"npu-smi does not find the driver's libraries ({last[0]})")
    return NpuSmiFailed("format", f"npu-smi shows no chips: {last[0]}")
