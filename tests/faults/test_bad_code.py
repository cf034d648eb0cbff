"""What a person writes wrongly: a key of the configuration, a kernel that does not compile, code that misbehaves."""

import importlib.util
import shutil
import subprocess

import pytest
import yaml
from declared_faults import check_says, fault
from lab import ROOT
from tiny import TINY, TinyLab

from minilab.device import cpu_device
from minilab.files import read_json

PROOFS = f"results/24/{cpu_device()}/proof"
NOT_TIMED = "No proof is written, so the kernel is neither timed nor drawn; the other kernels are."


def proves(lab: TinyLab, kernel: str, says: str) -> None:
    done = lab.run(f"{PROOFS}/{kernel}.json", *TINY[1:])
    assert done.returncode
    check_says(done.stdout, says)
    assert not (lab.root / f"{PROOFS}/{kernel}.json").exists()


@pytest.mark.parametrize(("written", "typo"), [("warmup: 60", "warm_up: 60")])
@fault(
    "a key of config.yaml is misspelt",
    "config.yaml: training has an unknown key 'warm_up'; did you mean 'warmup'?",
    "Nothing has run.",
)
def test_a_typo_in_the_configuration(tiny: TinyLab, says: str, written: str, typo: str):
    tiny.edit("config.yaml", lambda text: text.replace(written, typo))
    done = tiny.run()
    assert done.returncode
    check_says(done.stdout, says)


@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="NVRTC compiles CUDA C, and is not here")
@fault(
    "a CUDA C kernel of the lab does not compile",
    'naive.cu does not compile for sm_90: naive.cu(17): error: identifier "flaot" is undefined',
    NOT_TIMED,
)
def test_a_cuda_kernel_that_does_not_compile(tiny: TinyLab, says: str):
    tiny.edit("src/minikernel/ops/cuda/naive.cu", lambda text: text.replace("float maximum", "flaot maximum", 1))
    proves(tiny, "naive", says)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not here")
@fault(
    "a Triton kernel of the lab does not compile",
    "kernel triton on cpu, case ... of shape ... in ...: it failed with AttributeError: module ... has no attribute "
    "'expp2'.",
    NOT_TIMED,
)
def test_a_triton_kernel_that_does_not_compile(tiny: TinyLab, says: str):
    tiny.edit("src/minikernel/ops/softmax_triton.py", lambda text: text.replace("tl.exp", "tl.expp", 1))
    proves(tiny, "triton", says)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not here")
@fault(
    "a kernel of the lab returns wrong numbers",
    "kernel triton on cpu, case ... of shape ... in ...: largest relative error against float64 is ...",
    NOT_TIMED,
)
def test_a_wrong_kernel(tiny: TinyLab, says: str):
    tiny.edit("src/minikernel/ops/softmax_triton.py", lambda text: text.replace("1.4426950216293335", "1.44", 1))
    proves(tiny, "triton", says)


LEFT_OUT = "Its proof says so. It is neither timed nor drawn; everything else is."
# One for each sentence, and one that is right; minikernel/judge/test_judge_proof.py has the others of their kinds.
KERNELS = (
    "wrong_at_every_97th_call", "returns_one_buffer", "crashes", "patches_the_proof", "leaves_a_daemon", "refuses",
    "hangs",
)  # fmt: skip


LIMITS = (15, 60, 240)  # seconds: the first in which this machine gets to what hangs, and the others end


def run_with(
    lab: TinyLab, section: str, file: str, functions: tuple[str, ...], limited: str, hangs: str, *arguments: str
) -> subprocess.CompletedProcess:
    """Run the lab with a file's functions added to its configuration, each under its own name.

    Args:
        lab: changed.
        section, file, functions: the configuration's section, and what is added to it.
        limited: the section of `time_limit_seconds`.
        hangs: what a sentence begins with that is said of the one that hangs.
        arguments: of `lab.run`.
    """
    shutil.copy(ROOT / file, lab.root / "mine.py")
    key = {"kernels": "function", "models": "factory"}[section]
    config = yaml.safe_load((lab.root / "config.yaml").read_text())
    config[section] |= {name: {"source": "mine.py", key: name} for name in functions}
    for seconds in LIMITS:
        config[limited]["time_limit_seconds"] = seconds
        (lab.root / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        done = lab.run(*arguments)
        ended = [line for line in done.stdout.splitlines() if "did not end within" in line]
        if ended and all(hangs in line for line in ended):
            break
    return done


@fault(
    "a kernel of yours is wrong now and then, or only at some shapes",
    "left out: kernel ... on cpu, call ... of ... in a row at shape ... in float32: largest relative error ...",
    LEFT_OUT,
)
@fault(
    "a kernel of yours returns the same memory each time",
    "left out: kernel ... on cpu, case 'results kept' of shape ... in float32: result 1 of 8 was no longer right once "
    "the others had been made; a kernel returns a new tensor each time and leaves it alone afterwards",
    LEFT_OUT,
)
@fault(
    "a kernel of yours crashes its process",
    "left out: kernel ... on cpu, case ... of shape ... in float32: it crashed its process (SIGSEGV)",
    LEFT_OUT,
)
@fault(
    "a kernel of yours hangs",
    "left out: kernel ... on cpu, case ... of shape ... in float32: it did not end within ... seconds, the limit of "
    "proof.time_limit_seconds",
    "Its process is ended with all that it started. " + LEFT_OUT,
)
@fault(
    "a kernel of yours reaches into the process that judges it",
    "left out: kernel ... on cpu, case ... of shape ... in float32: ...",
    "Nothing that it writes or changes there counts: inputs are made and results compared in another process. "
    + LEFT_OUT,
)
@fault(
    "a kernel of yours refuses, in words of its own",
    "left out: kernel refuses on cpu, case ... of shape ... in float32: rows are too long for me",
    LEFT_OUT,
)
def test_kernels_that_misbehave_are_left_out(tiny: TinyLab, request: pytest.FixtureRequest):
    added = ("kernels", "tests/minikernel/misbehaving.py", KERNELS, "proof")
    proofs = [f"{PROOFS}/{name}.json" for name in KERNELS]
    done = run_with(tiny, *added, "kernel hangs on cpu, case", *proofs, *TINY[1:])
    assert done.returncode == 0, done.stdout
    for declared in request.node.iter_markers("fault"):
        check_says(done.stdout, declared.args[1])
    proven = {name for name in KERNELS if read_json(tiny.root / f"{PROOFS}/{name}.json")["verdict"] == "proven"}
    assert proven == {"leaves_a_daemon"}  # which is ended, and was right


MODELS = ("good", "raises", "leaves", "crashes", "hangs", "operator_without_fake")
NO_CAPTURE = "Nothing is written of it; `--keep-going` builds everything else."


@fault(
    "a model's factory of yours raises",
    "model raises: mine.py: raises() failed with RuntimeError: out of luck; mend it, and call it by itself to see "
    "where.",
    NO_CAPTURE,
)
@fault(
    "a model of yours ends its process",
    "model leaves (mine.py: leaves) on ... ended its process with exit status 0; code of yours must return.",
    NO_CAPTURE,
)
@fault(
    "a model of yours crashes its process",
    "model crashes (mine.py: crashes) on ... crashed its process (SIGSEGV); the log has where it was.",
    NO_CAPTURE,
)
@fault(
    "a model of yours hangs",
    "model hangs (mine.py: hangs) on ... did not end within ... seconds, the limit that compile.time_limit_seconds "
    "sets; raise it, or see in the log where it was.",
    "Its process is ended with all that it started. " + NO_CAPTURE,
)
@fault(
    "a model of yours has an operator that cannot be traced",
    "model operator_without_fake (mine.py: operator_without_fake) on ... failed with RuntimeError: There was no fake "
    "impl registered for ...; the log has its traceback.",
    NO_CAPTURE,
)
def test_models_that_misbehave_are_named(tiny: TinyLab, request: pytest.FixtureRequest):
    added = ("models", "tests/minicompile/misbehaving_models.py", MODELS, "compile")
    captures = [f"results/25/{name}/simulated-h200/capture.json" for name in MODELS]
    done = run_with(tiny, *added, "model hangs ", *captures, *TINY[1:], "--keep-going")
    assert done.returncode
    for declared in request.node.iter_markers("fault"):
        check_says(done.stdout, declared.args[1])
    assert [path for path in captures if (tiny.root / path).exists()] == captures[:1]
