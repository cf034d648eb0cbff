"""Configurations are compiled side by side, by processes that end in time."""

import os
import time
from pathlib import Path

import pytest

from minikernel.measure.compile_ahead import compile_ahead

KERNEL = """
import os, time
from pathlib import Path

def launch(x, y, config):
    if config["does"] == "fails":
        raise RuntimeError("out of registers")
    said = f"{os.getpid()} {tuple(x.shape)} {x.dtype} {y.shape == x.shape}"
    Path(FOLDER, str(config["number"])).write_text(said)
    if config["does"] == "hangs":
        time.sleep(600)
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "kernel_to_compile.py").write_text(f"FOLDER = {str(tmp_path)!r}\n{KERNEL}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return "kernel_to_compile"


def cases(*does: str) -> list[tuple[int, int, str, dict]]:
    return [(1 << 20, 600, "bfloat16", {"does": one, "number": number}) for number, one in enumerate(does)]


def test_each_is_compiled_elsewhere_and_what_fails_stops_none(kernel: str, tmp_path: Path):
    compile_ahead(kernel, cases("fails", "compiles", "compiles", "compiles"), "cpu", 2, 120)
    said = [(tmp_path / number).read_text() for number in "123"]
    assert all(one.endswith("(8, 600) torch.bfloat16 True") for one in said)
    assert len({one.split()[0] for one in said} - {str(os.getpid())}) == 2
    assert not (tmp_path / "0").exists()


def test_at_the_limit_the_search_begins_and_nothing_goes_on(kernel: str, tmp_path: Path):
    for limit in (4, 20, 80):  # the first in which this machine, perhaps a busy one, gets to what is compiled
        began = time.monotonic()
        compile_ahead(kernel, cases("hangs", "compiles", "compiles"), "cpu", 2, limit)
        assert limit < time.monotonic() - began < limit + 80
        if (tmp_path / "0").exists() and (tmp_path / "1").exists():
            break
    assert (tmp_path / "1").exists()
    assert not (tmp_path / "2").exists()  # behind the one that hangs
    assert not Path("/proc", (tmp_path / "0").read_text().split()[0]).exists()


def test_one_process_compiles_nothing_ahead(kernel: str, tmp_path: Path):
    compile_ahead(kernel, cases("compiles"), "cpu", 1, 60)
    assert not (tmp_path / "0").exists()
