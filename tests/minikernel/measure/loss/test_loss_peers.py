"""The contest beside peers as `pip install --target` leaves them: found, called, timed; one that fails is told so."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_loss_contest import PARAMS

from minikernel.measure.loss import contest
from minikernel.proof.loss.contenders import CONTENDERS

PLAIN = """
import torch.nn.functional as F

calls = []


def {name}(h, weight, target, **options):
    {first}
    return F.cross_entropy(F.linear(h, weight), target)
"""
# distribution -> version, module, function
PEERS = {
    "liger-kernel": ("0.8.5", "liger_kernel/transformers/functional.py", "liger_fused_linear_cross_entropy"),
    "quack-kernels": ("0.6.5", "quack/linear_cross_entropy.py", "chunked_linear_cross_entropy"),
    "cut-cross-entropy": ("25.1.1", "cut_cross_entropy/__init__.py", "linear_cross_entropy"),
}
OURS = ("liger", "liger-sm90", "quack", "quack-scaled", "cce")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the contest beside peers whose functions begin with a given line; who and direction -> row."""

    def run(**first: str) -> dict:
        for distribution, (version, module, name) in PEERS.items():
            known = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info" / "METADATA"
            known.parent.mkdir()
            known.write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
            for folder in [*Path(module).parents][:-1]:
                (tmp_path / folder).mkdir(parents=True, exist_ok=True)
                (tmp_path / folder / "__init__.py").touch()
            line = first.get(distribution.partition("-")[0], "pass")
            (tmp_path / module).write_text(PLAIN.format(name=name, first=line))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("LIGER_KERNEL_STRICT", "0")  # which loading changes
        importlib.invalidate_caches()
        # they could not run on a CPU, and these can
        here = {who: replace(CONTENDERS[who], on_cpu=True) for who in ("eager", *OURS, "lab")}
        monkeypatch.setattr(contest, "CONTENDERS", here)
        monkeypatch.setattr(contest, "function_of", lambda who: CONTENDERS[who].load())
        made = contest.run_contest({**PARAMS, "shapes": {"float32": [[5, 16, 8]]}}, "cpu", lambda line: None)
        assert made["versions"]["liger"] == made["versions"]["liger-sm90"] == "0.8.5"
        assert (made["versions"]["quack"], made["versions"]["cce"]) == ("0.6.5", "25.1.1")
        return {(row["who"], row["direction"]): row for row in made["rows"]}

    before = set(sys.modules)
    yield run
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("liger_kernel", "quack", "cut_cross_entropy"):
            del sys.modules[name]


def timed(rows: dict) -> set[str]:
    both = [{who for (who, of), row in rows.items() if of == way and row["median_us"]} for way in contest.DIRECTIONS]
    assert both[0] == both[1]
    return both[0]


def test_peers_in_a_folder_on_the_path_are_found_and_timed(rows):
    found = rows(quack="assert not options, options")
    assert timed(found) == {"eager", "liger", "quack", "cce", "lab"}
    assert {found[who, "both"]["verdict"] for who in timed(found)} == {"right"}
    # a release without a path says so itself
    assert found["liger-sm90", "both"]["refused"]["text"].startswith("ModuleNotFoundError")
    assert found["quack-scaled", "both"]["refused"]["text"].startswith("AssertionError: {'use_scaled_exp': True}")


def test_a_peer_that_fails_at_once_is_told_so(rows):
    found = rows(liger="return None", quack="raise TypeError('no semantic key')", cut="import no_such_module")
    assert timed(found) == {"eager", "lab"}
    assert found["quack", "both"]["refused"] == {"code": "raised", "text": "TypeError: no semantic key"}
    assert found["cce", "forward"]["refused"]["text"].startswith("ModuleNotFoundError")
    assert found["liger", "both"]["refused"]["code"] == "raised"


@pytest.mark.parametrize("call", [2, 4, 6])
def test_a_peer_that_fails_while_it_is_timed_is_told_so_and_the_others_are_timed(rows, call: int):
    # the first call is judged, five are timed or weighed
    counted = f"calls.append(1); assert len(calls) < {call}, 'out of memory'"
    found = rows(cut=counted)
    assert timed({key: row for key, row in found.items() if key[0] != "cce"}) == {
        "eager",
        "liger",
        "quack",
        "quack-scaled",
        "lab",
    }
    assert found["cce", "both"]["refused"] == {"code": "raised", "text": "AssertionError: out of memory"}
    assert {len(found["lab", way]["samples_us"]["lab"]) for way in contest.DIRECTIONS} == {4}
    assert len(found) == 7 * 2
