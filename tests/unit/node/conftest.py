from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for uv, which is fetched once."""
    return tmp_path_factory.mktemp("tools") / "uv"
