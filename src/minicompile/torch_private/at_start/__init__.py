"""The folder that a started process finds on its path of modules; it holds a `sitecustomize` and nothing else.

What is here knows how Python starts. It does not know torch, which it imports only where the process does.
"""

from pathlib import Path


def sitecustomize_folder() -> Path:
    return Path(__file__).parent
