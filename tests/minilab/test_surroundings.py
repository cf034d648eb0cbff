"""A place in which Snakemake would fail later is refused first."""

import os
import time
from pathlib import Path

import pytest

from minilab import LabError
from minilab.surroundings import check_surroundings


def test_an_ordinary_place_is_accepted(tmp_path: Path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("")
    check_surroundings(tmp_path)


def test_braces_and_files_in_the_place_of_folders(tmp_path: Path):
    with pytest.raises(LabError, match="has braces in it"):
        check_surroundings(tmp_path / "{lab}")
    (tmp_path / "results").write_text("")
    with pytest.raises(LabError, match="results is a file where the lab needs a folder"):
        check_surroundings(tmp_path)


@pytest.mark.parametrize("name", ["src/deep/a.py", "scripts/a.py", "results/17/corpus.txt"])
def test_a_file_from_the_future(tmp_path: Path, name: str):
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text("")
    moment = time.time() + 3600
    os.utime(file, (moment, moment))
    with pytest.raises(LabError, match=rf"^{name} was written 3\d\d\d seconds from now .*`touch {name}`"):
        check_surroundings(tmp_path)
