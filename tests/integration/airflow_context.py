"""What a task gets from Airflow, without a scheduler: an identity and the task state store, whose values survive between tries.

Only Airflow's own bookkeeping is stood in for; SSH, the node and its processes are real.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any


class StateStore(dict[str, Any]):
    """As ``airflow.sdk``'s accessor: get, set, delete."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


def context(store: StateStore, try_number: int = 1, task_id: str = "stage.task", map_index: int = -1) -> Any:
    return {"ti": SimpleNamespace(task_id=task_id, try_number=try_number, map_index=map_index), "task_state_store": store}


def event_of(trigger: Any, seconds: float = 120) -> dict[str, Any]:
    """Run a trigger as the triggerer does, and return the payload of its event."""

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("no event")

    return asyncio.run(asyncio.wait_for(first(), seconds))
