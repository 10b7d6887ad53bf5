"""Load a converted checkpoint and check it against the base model it was trained from.

Runs in the training environment. Checks: it loads with transformers; the same tensors, in names and shapes; all values
finite; some values changed (training did something); the same tokenizer. Result: counts and the largest change.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .result import stop_with, write_result


def read_tensors(folder: Path) -> dict[str, Any]:
    """Read all tensors of a Hugging Face folder."""
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        stop_with(f"{folder} holds no .safetensors file: the conversion wrote no weights")
    tensors: dict[str, Any] = {}
    for file in files:
        tensors |= load_file(file)
    return tensors


def compare(base: dict[str, Any], trained: dict[str, Any]) -> dict[str, Any]:
    """Compare tensors by name, shape and value; stops with the first fault."""
    import torch

    missing, extra = sorted(base.keys() - trained.keys()), sorted(trained.keys() - base.keys())
    if missing or extra:
        stop_with(f"the converted checkpoint lacks {missing[:5]} and has unknown {extra[:5]}")
    largest = 0.0
    for name, tensor in trained.items():
        if tensor.shape != base[name].shape:
            stop_with(f"{name} has shape {tuple(tensor.shape)}, the base model {tuple(base[name].shape)}")
        if not torch.isfinite(tensor).all():
            stop_with(f"{name} holds NaN or infinite values: the training diverged or the conversion is broken")
        largest = max(largest, (tensor.float() - base[name].float()).abs().max().item())
    if largest == 0:
        stop_with("the converted weights equal the base model's: nothing was trained, or the wrong folder was converted")
    return {"tensors": len(trained), "largest_change": largest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--trained", type=Path, required=True)
    arguments = parser.parse_args()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = compare(read_tensors(arguments.base), read_tensors(arguments.trained))
    model = AutoModelForCausalLM.from_pretrained(arguments.trained)
    vocabularies = [AutoTokenizer.from_pretrained(folder).get_vocab() for folder in (arguments.base, arguments.trained)]
    if vocabularies[0] != vocabularies[1]:
        stop_with("the tokenizer is not the base model's")
    found |= {"parameters": sum(parameter.numel() for parameter in model.parameters()), "folder": str(arguments.trained)}
    print(f"loads: {found['parameters']} parameters in {found['tensors']} tensors, largest change {found['largest_change']:.4f}")
    write_result(found)


if __name__ == "__main__":
    main()
