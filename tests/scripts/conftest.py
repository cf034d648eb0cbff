"""Where scripts are run that find results by their own paths."""

from pathlib import Path

import pytest
from lab import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder from which the lab's schemas, scripts and sources are found by their own paths, and nothing is built."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("schemas", "scripts", "src", "config.yaml"):
        (folder / name).symlink_to(ROOT / name)
    return folder
