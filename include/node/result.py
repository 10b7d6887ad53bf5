"""How a node script hands its result back: one JSON object in the file named by ``RESULT_FILE``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def write_result(result: dict[str, Any]) -> None:
    """Write ``result`` at once (temporary file, then rename); without ``RESULT_FILE``, print it."""
    target = os.environ.get("RESULT_FILE")
    text = json.dumps(result, ensure_ascii=False)
    if not target:
        print(text)
        return
    temporary = Path(f"{target}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)


def stop_with(message: str) -> None:
    """End the script as failed, with a message that says what to do."""
    print(f"ERROR: {message}", file=sys.stderr, flush=True)
    raise SystemExit(1)
