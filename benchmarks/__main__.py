"""Everything, one after the other: `python -m benchmarks [--quick]`."""

import subprocess
import sys

for module in ("kernels", "kernel_processes", "simulations", "peers", "networks", "nonlinear", "agent"):
    subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *sys.argv[1:]], check=True)
