"""Labs whose GPU jobs are stand-ins, for machines and schedulers without a GPU."""

import shutil
from pathlib import Path

from lab import ROOT, Lab, copy_lab

GPU = "stand-in-gpu"
SCRIPTS = ("prove", "ceilings", "autotune", "bench_kernel", "head", "contest", "kernel_swap", "watch")
SMALL = ["--configfile", "tests/small.yaml"]
CONFIG = ["--config", f"devices={{measure: [{GPU}], recorded: auto}}", "references={cuda: [F.softmax], cpu: [numpy]}"]
CEILINGS = f"results/24/{GPU}/ceilings.json"


def lab_with_stand_ins(folder: Path) -> Lab:
    """A copy of the lab in which stand_in.py takes the place of every script that measures on a GPU."""
    lab = copy_lab(folder)
    for script in SCRIPTS:
        shutil.copy(ROOT / "tests/cluster/stand_in.py", lab.root / f"scripts/{script}.py")
    return lab


def lab_before_its_ceilings(folder: Path) -> Lab:
    """Such a lab in which one GPU job, that of `CEILINGS`, is all that is left to do."""
    lab = lab_with_stand_ins(folder)
    lab.pretend_built(CEILINGS, *SMALL, *CONFIG)
    (lab.root / CEILINGS).unlink()
    return lab
