"""The verl Platform "cpu", registered through verl's own ``PlatformRegistry`` (entry point group ``verl.plugins``).

verl 0.9 ships platforms for CUDA, NPU and ROCm only. Everything here stands in for an accelerator call that verl makes on
whatever ``get_platform()`` returns.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

CPU = torch.device("cpu")


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Stand in for a device call that has no meaning on a CPU."""


def _resident_bytes(*_args: Any) -> int:
    return int(psutil.Process().memory_info().rss)


class _CpuDeviceModule(types.ModuleType):
    """``torch.cpu`` plus the calls that verl's FSDP code makes on ``torch.cuda`` or ``torch.npu``.

    verl/utils/device.py hands this out as ``get_torch_device()``; memory figures are the process's and the host's.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: CPU)
    set_device = staticmethod(_nothing)
    empty_cache = staticmethod(_nothing)
    ipc_collect = staticmethod(_nothing)
    reset_peak_memory_stats = staticmethod(_nothing)
    memory_allocated = staticmethod(_resident_bytes)
    max_memory_allocated = staticmethod(_resident_bytes)
    memory_reserved = staticmethod(_resident_bytes)
    max_memory_reserved = staticmethod(_resident_bytes)
    mem_get_info = staticmethod(lambda *_: (psutil.virtual_memory().available, psutil.virtual_memory().total))
    get_rng_state = staticmethod(lambda *_: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, *_: torch.set_rng_state(state))
    manual_seed = staticmethod(torch.manual_seed)
    manual_seed_all = staticmethod(torch.manual_seed)
    get_device_name = staticmethod(lambda *_: "cpu")


_DEVICE_MODULE = _CpuDeviceModule("verl_cpu_device")


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """A CPU in the place of one accelerator; select it with ``VERL_PLATFORM=cpu``."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _DEVICE_MODULE

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        # An int would mean "accelerator number n" to Tensor.to(), which verl calls with this value.
        return CPU

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "ASCEND_RT_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        # verl's resource pool counts "GPU" or "NPU" and nothing else (verl/single_controller/ray/base.py); an NPU is a
        # custom Ray resource, so a CPU node can offer it with `ray start --resources`.
        return "NPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None


_init_process_group = torch.distributed.init_process_group


def _init_process_group_once_per_device(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
    """verl asks for "cpu:gloo,<device>:<backend>" (verl/utils/distributed.py); here both halves name the CPU,
    and torch refuses a device named twice."""
    _init_process_group("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)


torch.distributed.init_process_group = _init_process_group_once_per_device
