#!/usr/bin/env bash
# Resolve every lock file anew (`make lock`). PyTorch's CPU builds come from a find-links folder, or from PyTorch's own index.
set -euo pipefail
cd "$(dirname "$0")"
torch=(--torch-backend cpu)
if [ -n "${PIP_FIND_LINKS:-}" ]; then torch=(--find-links "$PIP_FIND_LINKS"); fi
resolve() { uv pip compile --quiet --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url "$@"; }

resolve ../../../requirements.txt --output-file ../../../requirements.lock
resolve ../../../requirements-dev.txt --constraint ../../../requirements.lock --output-file ../../../requirements-dev.lock
for input in *.in; do
  case $input in train-*) overrides=train-cpu.overrides ;; *) overrides=eval.overrides ;; esac
  resolve "$input" "${torch[@]}" --override "$overrides" --output-file "${input%.in}.txt"
done
