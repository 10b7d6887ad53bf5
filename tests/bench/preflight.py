"""How long the judge takes over 64 simulated nodes, each reaching each: ``python -m tests.bench.preflight``. Limit: 1 s."""

from __future__ import annotations

import time

from include.regression.preflight import judge
from tests.simulated import a3_need, healthy

if __name__ == "__main__":
    need = a3_need(64)
    observed = healthy(need)
    for _ in range(5):
        began = time.perf_counter()
        findings = judge(need, observed)
        print(f"64 nodes, {len(findings)} findings: {time.perf_counter() - began:.3f} s")
