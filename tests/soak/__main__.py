"""`python -m tests.soak --minutes 20`: exit status 1 when something was lost, doubled, wrong or kept."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.soak.run import WARM_UP, soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--askers", type=int, default=6)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = soak(Path(directory), seconds=asked.minutes * 60, askers=asked.askers)
    print(result.summary())
    kept = result.inflight or result.slots_in_use or result.readings.growth(WARM_UP) > 0.05
    return 1 if result.findings.failures or kept else 0


if __name__ == "__main__":
    sys.exit(main())
