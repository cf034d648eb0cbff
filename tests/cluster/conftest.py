"""The cluster that the tests run on, and labs to run on it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))  # lab.py: copies of the lab to run and to break

from slurm import Cluster, reason_to_skip


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    """A SLURM that is up while the tests of the session run; skipped, with the reason, where there can be none."""
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="no SLURM plugin: pip install -e '.[slurm]'")
    if reason := reason_to_skip():
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
