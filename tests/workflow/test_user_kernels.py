"""Kernels of a user's in one run of the lab: the good ones stay, the others are left out with a sentence each."""

import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from declared_faults import fault
from lab import ROOT, SMALL, Lab

from minikernel.reasons import in_words
from minilab.config.check import check_schema, read_schema
from minilab.device import cpu_device, has_cpp_compiler
from minilab.files import read_json

CPU = cpu_device()
RUNGS = ("loop", "vectors", "threads", "streaming") if has_cpp_compiler() else ()
MISBEHAVING = {
    "wrong": "largest relative error against float64",
    "raises": "it failed with RuntimeError: out of luck",
    "crashes": r"it crashed its process \(SIGSEGV\)",
    "hangs": r"it did not end within \d+ seconds, the limit of proof.time_limit_seconds",
    "writes_after": "it wrote outside its output: 4 bytes changed",
}


LIMITS = (15, 60, 240)  # seconds: the first in which this machine gets to where a kernel hangs, and the others end
HELPED, HELPERS = "my_kernels/helpers/scaling.py", "scale = 1.0\n"
MINE = """import torch

def softmax(x):
    from helpers.scaling import scale
    numerator = (scale * x.float() - scale * x.float().amax(-1, keepdim=True)).exp()
    return (numerator / numerator.sum(-1, keepdim=True)).to(x.dtype)
"""


@pytest.fixture(scope="module")
def ran(built: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, str]:
    """The built lab with those kernels added to its configuration, run again, and what Snakemake said."""
    lab = built.copy(tmp_path_factory.mktemp("user") / "lab")
    (lab.root / "my_kernels").mkdir()
    shutil.copy(ROOT / "tests/minikernel/misbehaving.py", lab.root / "my_kernels")
    (lab.root / "my_kernels/softmax_mine.py").write_text(MINE)
    (lab.root / HELPED).parent.mkdir()
    (lab.root / HELPED).write_text(HELPERS)
    config = yaml.safe_load((lab.root / "config.yaml").read_text())
    mine = {name: {"source": "my_kernels/misbehaving.py", "function": name} for name in ("good", *MISBEHAVING)}
    mine["mine"] = {"source": "my_kernels/softmax_mine.py", "function": "softmax"}
    for limit in LIMITS:
        proof = {"time_limit_seconds": limit}
        whole = config | {"kernels": config["kernels"] | mine, "swap_kernel": "good", "proof": proof}
        (lab.root / "config.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
        said = lab.snakemake(*SMALL).stdout
        reasons = left_out(lab.root / f"results/24/{CPU}/bench.json")
        ended = {kernel for kernel, reason in reasons.items() if "it did not end within" in reason}
        if ended == {"hangs"} and "case 'random'" in reasons["hangs"]:
            break
    return lab, said


def left_out(path: Path) -> dict[str, str]:
    return {out["kernel"]: in_words(out["reason"]) for out in read_json(path)["left_out"]}


def pages(lab: Lab) -> str:
    """What a person reads of the kernels: the report and the contest's page."""
    return "".join((lab.root / f"results/24/{name}.md").read_text() for name in ("README", "CONTEST"))


def test_the_bench_carries_one_sentence_for_each(ran: tuple[Lab, str]):
    lab, _ = ran
    path = lab.root / f"results/24/{CPU}/bench.json"
    check_schema(read_json(path), read_schema(ROOT / "schemas/bench.schema.yaml"), "bench.json")
    reasons = left_out(path)
    assert set(reasons) == set(MISBEHAVING)
    for kernel, said in MISBEHAVING.items():
        assert re.match(f"kernel {kernel} on cpu, case 'random' of shape .*{said}", reasons[kernel])
        assert "\n" not in reasons[kernel]


def test_the_proofs_give_their_verdicts(ran: tuple[Lab, str]):
    lab, _ = ran
    verdicts = {}
    for path in (lab.root / f"results/24/{CPU}/proof").glob("*.json"):
        report = read_json(path)
        check_schema(report, read_schema(ROOT / "schemas/proof.schema.yaml"), path.name)
        verdicts[report["kernel"]] = report["verdict"]
    expected = dict.fromkeys(MISBEHAVING, "left out") | dict.fromkeys(("naive", "smem", "warp", "fused"), "not run")
    expected |= dict.fromkeys(("good", "mine", "numpy", "F.softmax", "triton_textbook", "triton", *RUNGS), "proven")
    assert verdicts == expected


def test_a_users_kernel_is_proven_by_config_alone(ran: tuple[Lab, str]):
    lab, _ = ran
    proof = read_json(lab.root / f"results/24/{CPU}/proof/mine.json")
    assert proof["kernel"] == "mine"
    assert len(proof["cases"]) > 30
    report = pages(lab)
    assert "- `mine` on" in report
    (missing,) = re.findall("Not in it: (.*), not measured there", report)  # on the H200, whose record knows no such
    assert "`mine`" in missing


@fault("a record knows nothing of a kernel of yours", None, "It is missing there by name, and nothing is stale.")
def test_kernels_of_ones_own_make_no_record_stale(ran: tuple[Lab, str]):
    lab, _ = ran
    restored = read_json(lab.root / "results/24/h200/bench.json")["restored"]
    assert {"good", "mine", *MISBEHAVING} <= set(restored["missing"])
    assert not [reason for reason in restored["reasons"] if reason.get("kernel") in restored["missing"]]


def test_everything_else_is_built(ran: tuple[Lab, str]):
    lab, _ = ran
    assert (lab.root / "results/24/roofline.png").stat().st_size > 10_000
    assert "good" in pages(lab)


def test_each_is_warned_of_where_a_person_looks(ran: tuple[Lab, str]):
    lab, said = ran
    for kernel in MISBEHAVING:
        assert f"left out: kernel {kernel} on cpu" in said
        assert f"left out: kernel {kernel} on cpu" in (lab.root / f"logs/24/{CPU}/prove/{kernel}.log").read_text()


def test_nothing_is_asked_of_them_again(ran: tuple[Lab, str]):
    lab, _ = ran
    assert lab.jobs(*SMALL) == set()


@fault(
    "what a kernel or model of yours imports or opens is edited, even with an old time",
    None,
    "What was made with it is made again, and nothing else.",
)
def test_what_a_kernel_imports_when_it_is_called_counts_whatever_its_time(ran: tuple[Lab, str], tmp_path: Path):
    lab = ran[0].copy(tmp_path / "lab")
    helper = lab.root / HELPED
    proof = read_json(lab.root / f"results/24/{CPU}/proof/mine.json")
    assert HELPED in {*proof["provenance"]["sources"], *proof["provenance"].get("opened", {})}
    helper.touch()
    assert lab.jobs(*SMALL) == set()
    helper.write_text(HELPERS.replace("1", "2"))
    os.utime(helper, (1_600_000_000, 1_600_000_000))
    assert {job for job in lab.jobs(*SMALL) if job.startswith("prove")} == {f"prove results/24/{CPU}/proof/mine.json"}
    lab.snakemake(f"results/24/{CPU}/proof/mine.json", *SMALL[-2:])
    assert read_json(lab.root / f"results/24/{CPU}/proof/mine.json")["verdict"] == "left out"
    helper.write_text(HELPERS)
    assert f"prove results/24/{CPU}/proof/mine.json" in lab.jobs(*SMALL)


def test_one_of_the_labs_own_that_fails_still_ends_the_run(ran: tuple[Lab, str], tmp_path: Path):
    lab, _ = ran
    broken = lab.copy(tmp_path / "lab")
    broken.edit(
        "src/minikernel/ops/softmax_reference.py",
        lambda text: text.replace("    numerator /= numerator.sum", "    numerator /= 2 * numerator.sum"),
    )
    done = broken.snakemake(f"results/24/{CPU}/proof/numpy.json", *SMALL[-2:], check=False)
    assert done.returncode
    assert "kernel numpy" in done.stdout
