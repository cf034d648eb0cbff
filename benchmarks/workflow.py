"""How long the lab takes from a fresh clone: the main job, a dry run with nothing to do, one kernel's edit.

    python benchmarks/workflow.py

Clones the committed state into a temporary folder; the environment that runs this is used as it is.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from minilab.device import cpu_name, short_name, usable_cores

ROOT = Path(__file__).parents[1]
MAIN_JOB = ["results/24/roofline.png"]
LIMITS = {"main job": 240.0, "dry run, nothing to do": 2.0}


def timed(what: str, folder: Path, *arguments: str) -> str:
    began = time.perf_counter()
    command = [sys.executable, "-m", "snakemake", *MAIN_JOB, "--cores", "4", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{what} failed:\n{done.stdout}")
    limit = LIMITS.get(what)
    verdict = f"   limit {limit:g} s, ratio {seconds / limit:.2f}" if limit else ""
    print(f"{what:36s} {seconds:8.1f} s{verdict}", flush=True)
    return done.stdout


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    load = os.getloadavg()[0]
    print(
        f"on {usable_cores()} cores of {short_name(cpu_name())}, with a load of {load:.1f} before it began", flush=True
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "clone")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        timed("main job", folder)
        timed("dry run, nothing to do", folder, "--dry-run")
        kernel = folder / "src/minikernel/ops/softmax_triton.py"
        kernel.write_text(kernel.read_text() + "\n")
        output = timed("after an edit of the Triton kernel", folder)
        starts = [line.split() for line in output.splitlines() if line.startswith(("rule ", "localrule "))]
        print("  jobs:", ", ".join(words[1].rstrip(":") for words in starts))


if __name__ == "__main__":
    main()
