"""verl's console logger: one line per step, ``step:1 - critic/rewards/mean:0.5 - perf/throughput:2160.83 - ...``.

For releases without a file logger (before v0.6.0). Source: ``concat_dict_to_str`` in verl/utils/logger/aggregate_logger.py: three
decimals up to v0.4.1, the full representation from v0.5.0, where NumPy 2 may wrap it (``np.float64(0.5)``). Ray may put a
coloured prefix before it, tqdm a progress bar.
"""

from __future__ import annotations

import re

from include.regression.parsers.verl_metrics import Step

ANSI = re.compile(r"\x1b\[[0-9;]*m")
LINE = re.compile(r"(?:^|[\s)])step:(\d+) - (\S+:.*)")
PAIR = re.compile(r"(\S+):(?:np\.\w+\()?([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))\)?")


def parse_console(text: str) -> tuple[list[Step], int]:
    """Parse the complete lines of ``text``; return the steps and how many bytes (UTF-8) the lines were.

    The log is read while it grows: an unfinished last line is left for the next look. Lines of other kinds are passed over; NaN and
    infinity are kept as such.
    """
    complete = text[: text.rfind("\n") + 1]
    steps = []
    for line in re.split(r"[\r\n]", ANSI.sub("", complete)):
        found = LINE.search(line)
        if found:
            pairs = (PAIR.fullmatch(part.strip()) for part in found[2].split(" - "))
            values: dict[str, float | None] = {pair[1]: float(pair[2]) for pair in pairs if pair}
            steps.append(Step(int(found[1]), values))
    return steps, len(complete.encode())
