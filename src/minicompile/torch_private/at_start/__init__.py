"""The folder that a started process finds on its path of modules; it holds a `sitecustomize` and nothing else."""

from pathlib import Path


def sitecustomize_folder() -> Path:
    return Path(__file__).parent
