"""The preflight: what every node said of itself, judged against the cluster file, the release and the other nodes.

Pure: the asking is done by plugins/verl_regression/inspection.py.
"""

from include.regression.preflight.findings import Finding
from include.regression.preflight.judge import judge
from include.regression.preflight.need import Need, need_of
from include.regression.preflight.observed import NodeFacts, Observed

__all__ = ["Finding", "Need", "NodeFacts", "Observed", "judge", "need_of"]
