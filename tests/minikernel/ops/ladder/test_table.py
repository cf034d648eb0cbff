"""The ladder's table: every rung by its language, in order, and known to whoever looks a kernel up by its name."""

from pathlib import Path

import yaml

from minikernel import kernels
from minikernel.measure.contest.contest import forward_providers
from minikernel.measure.contest.standards import OURS
from minikernel.ops.ladder.table import LADDERS, TABLE
from minikernel.ops.registry import SPECS

ROOT = Path(__file__).parents[4]


def test_each_language_has_its_ladder_from_the_textbook_on():
    assert LADDERS["CUDA C"] == ("naive", "smem", "warp", "fused")
    assert LADDERS["Triton"] == ("triton_textbook", "triton")
    assert LADDERS["C++"] == ("loop", "vectors", "threads", "streaming")


def test_the_configuration_names_every_rung_and_the_registry_knows_it():
    configured = yaml.safe_load((ROOT / "config.yaml").read_text())["kernels"]
    rungs = [name for ladder in LADDERS.values() for name in ladder]
    assert list(configured) == rungs
    for name in rungs:
        assert kernels.spec(name) is SPECS[name] is TABLE[name]
        assert (ROOT / configured[name]["source"]).samefile(TABLE[name].source)
        assert configured[name]["function"] == TABLE[name].function


def test_the_contest_times_the_rungs_whose_proofs_it_asks_for():
    assert set(OURS) <= set(forward_providers({}))
    assert set(OURS) == {name for name in forward_providers({}) if name in TABLE} - {"F.softmax"}
