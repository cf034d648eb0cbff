"""Lets Snakemake ask SLURM every second how its jobs are: by itself it waits ten seconds longer each time in vain.

Run in the process of a test's Snakemake, before it begins.
"""

from snakemake_executor_plugin_slurm import Executor

SECONDS = 1

Executor.next_seconds_between_status_checks = property(lambda self: SECONDS, lambda self, seconds: None)
