"""``nvidia-smi --query-gpu=... --format=csv,noheader,nounits``: the GPUs of a node and their memory."""

from __future__ import annotations

from typing import NamedTuple

#: Columns that are asked for, in this order (nvidia-smi --help-query-gpu).
QUERY = "index,name,driver_version,memory.used,memory.total"

#: Share of its memory that an idle GPU may use (the driver itself takes up to about 1 GB of 80).
IDLE_SHARE = 0.05


class Gpu(NamedTuple):
    number: int
    name: str
    driver: str
    used_mb: int
    total_mb: int

    @property
    def busy(self) -> bool:
        return self.used_mb > IDLE_SHARE * self.total_mb


class NvidiaSmiFailed(Exception):
    """nvidia-smi listed no GPU; the message is its own."""


def parse_nvidia_smi(text: str) -> list[Gpu]:
    """Read the lines of :data:`QUERY`. Raises NvidiaSmiFailed if there are none, or one is of another form."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 5 or not (cells[0].isdigit() and cells[3].isdigit() and cells[4].isdigit()):
            raise NvidiaSmiFailed(line)
        found.append(Gpu(int(cells[0]), cells[1], cells[2], int(cells[3]), int(cells[4])))
    if not found:
        raise NvidiaSmiFailed("no output")
    return found
