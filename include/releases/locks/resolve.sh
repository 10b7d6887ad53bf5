#!/usr/bin/env bash
# Resolve every lock file anew (`make lock`). PyTorch's CPU builds come from a find-links folder, or from PyTorch's own index.
set -euo pipefail
cd "$(dirname "$0")"
torch=(--torch-backend cpu)
if [ -n "${PIP_FIND_LINKS:-}" ]; then torch=(--find-links "$PIP_FIND_LINKS"); fi
resolve() { uv pip compile --quiet --no-header --no-emit-find-links --no-emit-index-url "$@"; }

resolve --python-version 3.11 ../../../requirements.txt --output-file ../../../requirements.lock
resolve --python-version 3.11 ../../../requirements-dev.txt --constraint ../../../requirements.lock --output-file ../../../requirements-dev.lock
for input in eval-*.in train-cpu-*.in; do
  case $input in train-*) overrides=train-cpu.overrides ;; *) overrides=eval.overrides ;; esac
  resolve --python-version 3.11 "$input" "${torch[@]}" --override "$overrides" --output-file "${input%.in}.txt"
done
# Nodes with accelerators: each release on the Python that its input's first line names; torch there is the index's own wheel.
unset PIP_FIND_LINKS
for input in train-npu-*.in train-cuda-*.in; do
  case $input in train-npu-*) platform=aarch64-manylinux_2_28 ;; *) platform=x86_64-manylinux_2_28 ;; esac
  python=$(head -1 "$input" | grep -o 'Python 3\.[0-9]*' | cut -d' ' -f2)
  overrides=()
  if [ -f "${input%.in}.overrides" ]; then overrides=(--override "${input%.in}.overrides"); fi
  resolve "$input" --python-platform "$platform" --python-version "$python" "${overrides[@]}" --output-file "${input%.in}.txt"
done
