"""Somebody else's code in a process with limits: it ends with the lab, with all that it started, and harms nothing else."""
