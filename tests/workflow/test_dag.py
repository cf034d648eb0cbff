"""Which jobs an edit triggers: exactly those, on a laptop with a record and on a machine with the GPU."""

import json
import re
import shutil
from pathlib import Path

import pytest
from lab import ROOT, TARGETS, Lab, copy_lab

from minilab.device import cpu_device, has_cpp_compiler

CPU = cpu_device()
GPU_HERE = ("--config", f"devices={{measure: [h200, {CPU}], recorded: auto}}")
PICTURES = {
    "roofline results/24/roofline.png",
    "manifest_24 results/24/manifest.json",
    "report_24 results/24/README.md",
}
RUNGS = has_cpp_compiler()  # else the rungs in C++ are left out
GATHERED = {f"bench results/24/{CPU}/bench.json"} | ({"ladder results/24/ladder.png"} if RUNGS else set())
BANDWIDTH = "bandwidth results/24/bandwidth.png"
RECORDED_CONTEST = "results/recorded/h200/24/contest.json"
CONTESTANTS = [f"src/minikernel/ops/cuda/{name}.cu" for name in ("naive", "smem", "fused")]
MODEL = {
    "corpus results/17/corpus.txt",
    "train results/17/training.npz",
    "loss_plot results/17/loss.png",
    "export_checkpoint results/17/checkpoint.npz",
    "port results/24/minigpt.safetensors",
    "equivalence results/24/equivalence.json",
    f"kernel_swap results/24/{CPU}/kernel_swap.json",
}


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of the lab, whose record of the H200 holds no contest and nothing of later stages. Not to be changed."""
    lab = copy_lab(tmp_path_factory.mktemp("unbuilt") / "lab")
    (lab.root / RECORDED_CONTEST).unlink(missing_ok=True)
    for stage in ("25", "26"):
        shutil.rmtree(lab.root / f"results/recorded/h200/{stage}", ignore_errors=True)
    return lab


@pytest.fixture
def lab(unbuilt: Lab, tmp_path: Path) -> Lab:
    """A copy of that lab to change."""
    return unbuilt.copy(tmp_path / "lab")


@pytest.fixture(scope="module")
def on_a_laptop(unbuilt: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Everything built; the H200 only in the record. Not to be changed."""
    lab = unbuilt.copy(tmp_path_factory.mktemp("laptop") / "lab")
    lab.pretend_built(*TARGETS)
    return lab


@pytest.fixture
def laptop(on_a_laptop: Lab, tmp_path: Path) -> Lab:
    """A copy of that laptop to change."""
    return on_a_laptop.copy(tmp_path / "laptop")


def record_a_contest(lab: Lab) -> None:
    """Give the record of the H200 a contest, as far as the DAG reads one."""
    sources = dict.fromkeys([*CONTESTANTS, "src/minikernel/ops/softmax_triton.py"], "digest")
    (lab.root / RECORDED_CONTEST).write_text(json.dumps({"provenance": {"sources": sources}}))


@pytest.fixture(scope="module")
def laptop_with_contest(unbuilt: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Everything built; the H200, its contest included, only in the record. To be changed by the last that uses it."""
    lab = unbuilt.copy(tmp_path_factory.mktemp("contest") / "lab")
    record_a_contest(lab)
    lab.pretend_built(*TARGETS)
    return lab


@pytest.fixture(scope="module")
def with_a_gpu(unbuilt: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab on whose machine an H200 counts as being here, with `GPU_HERE`, and everything as built."""
    lab = unbuilt.copy(tmp_path_factory.mktemp("gpu") / "lab")
    lab.pretend_built(*TARGETS, *GPU_HERE)
    return lab


@pytest.fixture
def gpu_machine(with_a_gpu: Lab, tmp_path: Path) -> Lab:
    """A copy of that lab to change."""
    return with_a_gpu.copy(tmp_path / "machine")


def test_the_readmes_command_leaves_what_the_readme_says(lab: Lab):
    readme = (ROOT / "README.md").read_text()
    table = re.search(r"leaves:\n\n((?:\|.*\n)+)", readme)[1]
    told = set(re.findall("`([^`]+)`", re.sub(r"\|[^|]*\|$", "", table, flags=re.M)))
    summary = lab.snakemake("results/24/roofline.png", "--summary").stdout
    made = {line.split("\t")[0] for line in summary.splitlines() if line.startswith("results/")}
    assert len(told) >= 6
    assert told <= made


def test_nothing_to_do_once_built(on_a_laptop: Lab):
    assert on_a_laptop.jobs(*TARGETS) == set()


def test_nothing_to_do_once_built_with_a_recorded_contest(laptop_with_contest: Lab):
    assert laptop_with_contest.jobs(*TARGETS) == set()


@pytest.mark.parametrize("recorded", [False, True])
def test_fresh_clone_runs_every_stage(lab: Lab, recorded: bool):
    if recorded:
        record_a_contest(lab)
    jobs = lab.jobs()  # the default target: everything that this machine can build
    assert ("restore results/24/h200/contest.json" in jobs) == (BANDWIDTH in jobs) == recorded
    assert {job.split()[0] for job in jobs} - {"bandwidth", "all"} == {
        "corpus", "train", "loss_plot", "export_checkpoint", "port", "equivalence", "kernel_swap", "prove", "ceilings",
        "allocation", "bench_on_cpu", "bench", "restore", "roofline", *["ladder"] * RUNGS, "manifest_24", "report_24",
        "watch", "watch_triton", "capture", "plain_files", "plain_files_triton", "annotate", "explorer",
        "explorer_side_by_side",
        "profile", "profile_figures", "profile_report",
        "compile_health", "train_port", "training_picture",
        "loss_contest", "loss_correctness", "restore_loss", "loss_picture", "report_27",
            "distributed", "survey", "report_25", "phase_reports", "lock", "dag", "lab_page",
    }  # fmt: skip


def test_proofs_of_kernels_wait_for_no_training(lab: Lab):
    proofs = [f"results/24/{CPU}/proof/{kernel}.json" for kernel in ("naive", "triton")]
    assert {job.split()[0] for job in lab.jobs(*proofs)} == {"prove"}
    assert {"prove", "equivalence", "train"} <= {job.split()[0] for job in lab.jobs(f"results/24/{CPU}/bench.json")}


@pytest.mark.parametrize("kernel", ["naive", "fused"])
def test_cuda_kernel_edit_on_a_laptop(laptop: Lab, kernel: str):
    laptop.edit(f"src/minikernel/ops/cuda/{kernel}.cu")
    proof = {f"prove results/24/{CPU}/proof/{kernel}.json", *GATHERED}
    restored = {
        f"restore results/24/h200/{name}.json" for name in ("bench", "head", *["autotune"] * (kernel == "fused"))
    }
    assert laptop.jobs(*TARGETS) == proof | restored | PICTURES


def test_kernel_edit_on_a_laptop_restores_the_contest_and_draws_it_again(laptop_with_contest: Lab):
    laptop_with_contest.edit(CONTESTANTS[-1])
    proof = {f"prove results/24/{CPU}/proof/fused.json", *GATHERED}
    restored = {f"restore results/24/h200/{name}.json" for name in ("autotune", "bench", "contest", "head")}
    assert laptop_with_contest.jobs(*TARGETS) == proof | restored | PICTURES | {BANDWIDTH}


@pytest.mark.parametrize("file", ["data/missed.yaml", "templates/contest_24.md"])
def test_an_edit_of_words_rewrites_the_report_only(laptop: Lab, file: str):
    laptop.edit(f"src/minikernel/report/{file}")
    assert laptop.jobs(*TARGETS) == {"report_24 results/24/README.md"}


def test_triton_kernel_edit_on_a_laptop(laptop: Lab):
    laptop.edit("src/minikernel/ops/softmax_triton.py")
    restored = {f"restore results/24/h200/{name}.json" for name in ("autotune", "bench", "head", "kernel_swap")}
    here = {f"prove results/24/{CPU}/proof/triton.json", *GATHERED, f"kernel_swap results/24/{CPU}/kernel_swap.json"}
    assert laptop.jobs(*TARGETS) == restored | here | PICTURES


def test_an_edit_of_a_rung_that_only_the_ladder_has_measures_that_rung_alone(gpu_machine: Lab):
    gpu_machine.edit("src/minikernel/ops/cuda/warp.cu")
    proofs = {f"prove results/24/{device}/proof/warp.json" for device in ("h200", CPU)}
    measured = {"bench_kernel results/24/h200/bench/warp.json", "bench results/24/h200/bench.json", *GATHERED}
    assert gpu_machine.jobs(*TARGETS, *GPU_HERE) == proofs | measured | PICTURES


@pytest.mark.parametrize("kernel", ["naive", "fused"])
def test_cuda_kernel_edit_measures_that_kernel_and_those_it_is_held_against(gpu_machine: Lab, kernel: str):
    gpu_machine.edit(f"src/minikernel/ops/cuda/{kernel}.cu")
    proofs = {f"prove results/24/{device}/proof/{kernel}.json" for device in ("h200", CPU)}
    measured = {f"bench_kernel results/24/h200/bench/{kernel}.json", "bench results/24/h200/bench.json"}
    against = {"contest results/24/h200/contest.json", "head results/24/h200/head.json", BANDWIDTH, *GATHERED}
    if kernel == "fused":  # autotune times it beside Triton's
        against |= {"autotune results/24/h200/autotune.json", "bench_kernel results/24/h200/bench/triton.json"}
    assert gpu_machine.jobs(*TARGETS, *GPU_HERE) == proofs | measured | against | PICTURES


MINE = "\nkernels:\n  mine: {source: experiments/minikernel/ops/softmax_triton.py, function: softmax}"


def test_a_users_kernel_is_judged_from_outside(gpu_machine: Lab):
    """Its path ends as that of the lab's own does, whose name it once went by."""
    source = gpu_machine.root / "experiments/minikernel/ops/softmax_triton.py"
    source.parent.mkdir(parents=True)
    source.write_text("def softmax(x):\n    return 0 * x\n")
    gpu_machine.edit("config.yaml", lambda text: text.replace("\nkernels:", MINE, 1))
    jobs = gpu_machine.jobs(*TARGETS, *GPU_HERE)
    assert {f"prove results/24/{device}/proof/mine.json" for device in ("h200", CPU)} <= jobs
    assert {job for job in jobs if "bench/" in job} == {"bench_users_kernel results/24/h200/bench/mine.json"}


def test_a_name_of_the_labs_for_other_code_is_refused(laptop: Lab):
    (laptop.root / "mine.py").write_text("def softmax(x):\n    return 0 * x\n")
    own = "{source: src/minikernel/ops/softmax_triton.py, function: softmax}"
    laptop.edit("config.yaml", lambda text: text.replace(own, "{source: mine.py, function: softmax}"))
    done = laptop.snakemake(*TARGETS, "--dry-run", check=False)
    assert done.returncode
    assert "kernels.triton is softmax of mine.py, and triton is the name of one of the lab's own kernels" in done.stdout


def test_lexicon_edit_retrains_but_measures_nothing(laptop: Lab):
    laptop.edit("src/minimodel/data/lexicon.yaml")
    assert laptop.jobs(*TARGETS) == MODEL | PICTURES - {"roofline results/24/roofline.png"}


def test_training_knob_retrains_but_keeps_the_corpus(laptop: Lab):
    laptop.edit("config.yaml", lambda text: re.sub(r"weight_decay: [\d.]+", "weight_decay: 0.5", text))
    expected = MODEL - {"corpus results/17/corpus.txt"} | PICTURES - {"roofline results/24/roofline.png"}
    assert laptop.jobs(*TARGETS) == expected


def test_another_language_writes_and_draws_anew_and_trains_and_measures_nothing(on_a_laptop: Lab):
    written = PICTURES - {"manifest_24 results/24/manifest.json"} | {"loss_plot results/17/loss.png"}
    written |= {"ladder results/24/ladder.png"}
    assert on_a_laptop.jobs(*TARGETS, "--config", "language=es") == written


def test_prompt_edit_predicts_again_only(laptop: Lab):
    laptop.edit("config.yaml", lambda text: text.replace("demo_prompt: Yesterday I", "demo_prompt: Tomorrow I"))
    swaps = {f"kernel_swap results/24/{CPU}/kernel_swap.json", "restore results/24/h200/kernel_swap.json"}
    assert laptop.jobs(*TARGETS) == swaps | PICTURES - {"roofline results/24/roofline.png"}


def test_cpu_shapes_edit_measures_the_cpu_only(laptop: Lab):
    laptop.edit(
        "config.yaml",
        lambda text: text.replace("[4096, 600], [32768, 600]]\n    launches", "[32768, 600]]\n    launches"),
    )
    jobs = laptop.jobs(*TARGETS)
    assert {job for job in jobs if not job.startswith("bench_on_cpu ")} == GATHERED | PICTURES - {
        "manifest_24 results/24/manifest.json"
    }
    assert [job.split()[0] for job in jobs].count("bench_on_cpu") == 1  # one job for all kernels


def test_gpu_jobs_ask_for_a_gpu_and_cpu_jobs_do_not(unbuilt: Lab):
    text = unbuilt.snakemake(*TARGETS, "--config", f"devices={{measure: [h200, {CPU}]}}", "--dry-run").stdout
    blocks = re.findall(r"^(?:local)?rule \w+:\n(?:    .*\n)+", text, re.M)
    for block in blocks:
        output = re.search(r"output: (\S+)", block)[1]
        wants_gpu = "gpu=1" in block
        assert wants_gpu == ("/h200/" in output and not output.endswith("bench.json")), block


@pytest.mark.parametrize(("cores", "left", "together"), [(4, 0, 1), (16, 4, 4)])
def test_what_times_a_gpu_leaves_cores_to_others_where_there_are_some(
    unbuilt: Lab, cores: int, left: int, together: int
):
    """And takes the whole GPU, in the profile's shares, so that no proof comes beside it; a CPU's timing is alone."""
    devices = f"devices={{measure: [h200, {CPU}]}}"
    text = unbuilt.snakemake(*TARGETS, "--config", devices, "--dry-run", cores=cores).stdout
    seen = {}
    for rule, block in re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", text, re.M):
        threads, share = (re.search(pattern, block) for pattern in (r"threads: (\d+)", r"gpu=(\d+)"))
        place = rule, "h200" in re.search(r"output: (\S+)", block)[1]
        seen[place] = int(threads[1]) if threads else 1, int(share[1]) if share else 0
    for rule in ("ceilings", "autotune", "bench_kernel"):
        assert seen[rule, True] == (cores - left, together)
    assert seen["ceilings", False] == (cores, 0)
    assert seen["bench_on_cpu", False] == (cores, 0)
    assert seen["prove", True] == (1, 1)
    assert seen["train", False] == (1, 0)


def test_device_that_is_neither_here_nor_recorded(unbuilt: Lab):
    done = unbuilt.snakemake("results/24/a100/bench.json", "--dry-run", check=False)
    assert done.returncode
    assert "There is no device a100 here" in done.stdout
    assert "snakemake --cores 4 results/24/a100/bench.json" in done.stdout


def test_a_cpu_alone_has_no_contest(lab: Lab):
    shutil.rmtree(lab.root / "results/recorded")
    jobs = lab.jobs("--config", f"devices={{measure: [{CPU}], recorded: auto}}")
    assert not {job.split()[0] for job in jobs} & {"contest", "bandwidth", "restore"}


def test_record_without_a_gpu_is_refused(unbuilt: Lab):
    done = unbuilt.snakemake("record", "--dry-run", check=False)
    assert done.returncode
    assert "No GPU is measured here, so there is nothing to record" in done.stdout
