"""Ask Snakemake about the workflow without running a job: graphs and summaries."""

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from minilab.errors import LabError


def ask_snakemake(config: dict, *question: str) -> str:
    """Return what Snakemake prints about the workflow in the working directory.

    Another process answers, through the command line, which is Snakemake's public interface. This may be called during
    a run, because it takes no lock.

    Args:
        config: the whole configuration of the run that asks, `--config` and `--configfile` included.
        question: arguments, such as `--rulegraph dot`.

    Raises:
        LabError: Snakemake ended with an error; the sentence quotes its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.yaml")
        file.write_text(yaml.safe_dump(config, sort_keys=False))  # in another order it counts as another
        command = [sys.executable, "-m", "snakemake", *question, "--cores", "1", "--configfile", str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        said = [line for line in lines if line and not line.startswith("File ")]  # where it was raised comes last
        raise LabError(f"`snakemake {' '.join(question)}` failed: {said[-1] if said else done.returncode}")
    return done.stdout
