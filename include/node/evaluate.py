"""Run one repeat of one data set with the real ais_bench, and gather everything it wrote.

This script judges nothing: ais_bench ends with 0 whatever happens, so the control plane decides from what is gathered here whether
the repeat counts (include/regression/parsers/ais_bench.py). Result: see :func:`gather`.

Layout of ais_bench's folder (3.1, WORK/TIMESTAMP): results/ABBR/DATASET.json (with --dump-eval-details one entry per question),
predictions/ABBR/DATASET.jsonl, predictions/ABBR/DATASET_failed.jsonl when requests failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from .processes import tail
from .result import stop_with, write_result
from .serve import mismatch, served_model

#: What is stored of a prediction: its end, where the answer stands. The whole stays in ais_bench's folder.
PREDICTION_CHARACTERS = 4000


def count_tokens(port: int, served_name: str, body: dict[str, Any]) -> int:
    """Ask the server how many tokens a text or chat has (vLLM's /tokenize, chat template included)."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/tokenize",
        data=json.dumps({"model": served_name, **body}).encode(),
        headers={"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        return int(json.load(answer)["count"])


def read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run_client(command: list[str], folder: Path, timeout_s: float) -> int:
    """Run ais_bench in ``folder`` (it litters its working folder), its output in client.log."""
    print("$", " ".join(command), flush=True)
    with (folder / "client.log").open("wb") as log:
        client = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            return client.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            stop_with(
                f"ais_bench was still running after {timeout_s:.0f} s (evaluation.timeout_min):\n{tail(folder / 'client.log')}"
            )
    raise AssertionError


def gather(folder: Path, model_abbr: str, dataset_abbr: str) -> dict[str, Any]:
    """Collect results, predictions and failures of the newest ais_bench folder below ``folder``/out.

    ``accuracy`` is ais_bench's own number or null; ``items`` has one entry per question that it scored; ``failed`` are the error
    texts of requests that failed; ``predictions`` counts the answers, ``unsuccessful`` those not marked as success.
    """
    runs = sorted(path for path in (folder / "out").glob("*") if path.is_dir())
    if not runs:
        return {"accuracy": None, "items": [], "predictions": 0, "unsuccessful": 0, "failed": [], "folder": str(folder)}
    base = runs[-1]
    answers = base / "predictions" / model_abbr
    predictions = read_lines(answers / f"{dataset_abbr}.jsonl")
    failed = read_lines(answers / f"{dataset_abbr}_failed.jsonl")
    results_file = base / "results" / model_abbr / f"{dataset_abbr}.json"
    results = json.loads(results_file.read_text()) if results_file.exists() else {}
    items = [
        {
            "question": int(number),
            "prompt": entry["prompt"],
            "prediction": entry["origin_prediction"],
            "extracted": entry["predictions"][0] if entry["predictions"] else None,
            "reference": entry["references"][0] if entry["references"] else None,
            "correct": bool(entry["correct"][0]),
        }
        for number, entry in (results.get("details") or {}).items()
    ]
    return {
        "accuracy": results.get("accuracy"),
        "items": items,
        "predictions": len(predictions),
        "unsuccessful": sum(not prediction.get("success") for prediction in predictions),
        "failed": [str(entry.get("error_info")) for entry in failed],
        "folder": str(base),
    }


def add_tokens(items: list[dict[str, Any]], port: int, served_name: str) -> None:
    """Add prompt and output tokens to each item, then cut its prediction to what is stored."""
    for item in items:
        chat = [{"role": "user", "content": item["prompt"]}]
        item["prompt_tokens"] = count_tokens(port, served_name, {"messages": chat, "add_generation_prompt": True})
        text = {"prompt": item["prediction"], "add_special_tokens": False}
        item["output_tokens"] = count_tokens(port, served_name, text)
        item["prediction"] = item["prediction"][-PREDICTION_CHARACTERS:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="this repeat's own, empty folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--expect", type=json.loads, required=True, help="JSON: id, root and max_model_len of the server")
    parser.add_argument("--model-abbr", required=True)
    parser.add_argument("--dataset-abbr", required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("command", nargs="+", help="ais_bench's command line, after --")
    arguments = parser.parse_args()
    began = time.monotonic()
    model = served_model(arguments.port)
    if model is None:
        stop_with(f"no server answers on port {arguments.port}; look at the serving task's log")
        raise AssertionError
    fault = mismatch(model, arguments.expect)
    if fault:
        stop_with(f"{fault}: another server holds port {arguments.port}")
    status = run_client(arguments.command, arguments.folder, arguments.timeout)
    found = gather(arguments.folder, arguments.model_abbr, arguments.dataset_abbr)
    after = served_model(arguments.port)
    alive = after is not None and after.get("created") is not None and mismatch(after, arguments.expect) is None
    if alive:
        add_tokens(found["items"], arguments.port, model["id"])
    found |= {
        "exit_status": status,
        "server_alive_after": alive,
        "seconds": round(time.monotonic() - began, 1),
        "log_tail": tail(arguments.folder / "client.log", 15),
        "pid": os.getpid(),
    }
    print(f"ais_bench: accuracy {found['accuracy']}, {found['predictions']} predictions, {len(found['failed'])} failed requests")
    write_result(found)


if __name__ == "__main__":
    main()
