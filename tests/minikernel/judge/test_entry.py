"""From an entry of the configuration to one file and one function, whatever else has that name."""

import shutil
from pathlib import Path

import pytest

from minikernel.judge.entry import check_entries, code_of, is_users
from minikernel.ops.registry import SPECS
from minilab import LabError

LABS = "src/minikernel/ops/softmax_triton.py"
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)


def of(source: object, function: str = "softmax") -> dict:
    return {"source": str(source), "function": function}


def test_a_file_of_the_same_name_and_folder_is_the_users(tmp_path: Path):
    """`experiments/minikernel/ops/softmax_triton.py` was once taken for the lab's, and proven by what that does."""
    mine = tmp_path / "minikernel/ops/softmax_triton.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("def softmax(x):\n    return 0 * x\n")
    assert is_users("mine", of(mine))
    assert not is_users("mine", of(LABS))
    assert is_users("mine", of(LABS, "launch"))


def test_the_labs_own_is_its_own_by_any_path(tmp_path: Path):
    (tmp_path / "link.py").symlink_to(ROOT / LABS)
    for source in (LABS, f"src/../{LABS}", ROOT / LABS, tmp_path / "link.py"):
        assert not is_users("triton", of(source))
        assert code_of("triton", of(source)) == code_of("triton", None)


def test_code_is_a_resolved_path_and_a_digest_of_what_runs(tmp_path: Path):
    (tmp_path / "mine.py").write_text("def softmax(x):\n    return x\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "mine.py")
    before = code_of("mine", of(tmp_path / "link.py"))
    assert (before["source"], before["function"]) == (str((tmp_path / "mine.py").resolve()), "softmax")
    (tmp_path / "mine.py").write_text("# a comment\ndef softmax(x):\n    return x\n")
    assert code_of("mine", of(tmp_path / "mine.py")) == before
    (tmp_path / "mine.py").write_text("def softmax(x):\n    return 2 * x\n")
    assert code_of("mine", of(tmp_path / "mine.py"))["sha256"] != before["sha256"]
    assert code_of("F.softmax", None)["source"] == "src/minikernel/ops/softmax_reference.py"


def test_a_name_of_the_labs_for_other_code_is_refused(tmp_path: Path):
    shutil.copy(LABS, tmp_path / "mine.py")
    check_entries({name: of(SPECS[name].source, SPECS[name].function) for name in ("naive", "triton")})
    check_entries({"mine": of(tmp_path / "mine.py"), "also_triton": of(LABS)})
    with pytest.raises(LabError, match=r"kernels\.triton is softmax of .*mine.py, and triton is the name of one of"):
        check_entries({"triton": of(tmp_path / "mine.py")})
    with pytest.raises(LabError, match=r"kernels\.fused is .*naive.cu"):
        check_entries({"fused": of(SPECS["naive"].source, "naive")})


def test_cpp_that_is_no_rung_is_refused():
    with pytest.raises(
        LabError, match=r"kernels.mine.source is .*probe.cpp, C\+\+ with no launcher; wrap it in a Python file"
    ):
        check_entries({"mine": of("src/minikernel/ops/cpu/probe.cpp", "additions")})


def test_what_is_not_there_is_named():
    with pytest.raises(LabError, match=r"no_such.py does not exist"):
        code_of("mine", of("no_such.py"))
