"""The benchmark of the CPU's ladder: every rung beside F.softmax and the copy that gets its memory alike."""

import re

import cpu_ladder
import pytest

from minikernel.measure.timing import Timing
from minikernel.ops.ladder.table import LADDERS
from minilab import LabError
from minilab.device import has_cpp_compiler

TIMED = {
    "streaming": Timing([10.0]),
    "threads": Timing([40.0]),
    "F.softmax": Timing([50.0]),
    "copy": Timing([9.5]),
    "copy, fresh": Timing([36.0]),
}


def test_each_is_held_against_the_copy_that_gets_its_memory_alike():
    assert cpu_ladder.share(TIMED, "streaming") == pytest.approx(0.95)
    assert cpu_ladder.share(TIMED, "threads") == pytest.approx(0.9)
    assert cpu_ladder.speed_up(TIMED, "streaming") == pytest.approx(5)


@pytest.mark.skipif(not has_cpp_compiler(), reason="needs a C++ compiler")
def test_it_prints_every_rung_with_its_ratios(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.setattr("sys.argv", ["cpu_ladder.py", "--shape", "64", "600", "--calls", "5", "--threads", "1"])
    cpu_ladder.main()  # its status says whether the targets are met, which at so small a shape means nothing
    out = capsys.readouterr().out
    assert "softmax of 64 x 600 float32" in out
    for rung in LADDERS["C++"]:
        assert re.search(rf"^{rung} +[\d.]+ +[\d.]+ to [\d.]+ +[\d.]+x +\d+%$", out, re.M), rung
    assert re.search(r"timing streaming twice gave results [\d.]+% apart", out)


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch):
    from minikernel.ops.cpu import build, rungs

    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr("sys.argv", ["cpu_ladder.py", "--shape", "8", "8"])
    build.built.cache_clear()
    rungs.function.cache_clear()
    with pytest.raises(LabError, match="no-such-compiler is not here"):
        cpu_ladder.main()
