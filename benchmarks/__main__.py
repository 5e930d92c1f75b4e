"""Everything, one after the other: `python -m benchmarks [--quick]`."""

import subprocess
import sys

for module in ("benchmarks.kernels", "benchmarks.simulations", "benchmarks.networks", "benchmarks.agent"):
    subprocess.run([sys.executable, "-m", module, *sys.argv[1:]], check=True)
