"""`kill -9` at random moments: nothing half-written passes for whole, and the same command goes on from there."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TINY, TinyLab
from faults import fault

MOMENTS = 50
JOBS = {  # script -> its arguments, and its deterministic outputs
    "corpus": (
        ["input.lexicon=src/minimodel/data/lexicon.yaml", "input.grammar=src/minimodel/data/grammar.yaml",
         "params.corpus={sentences: 3000, held_out: 200, seed: 42}", "output.corpus=corpus.txt",
         "output.vocabulary=vocab.json"],
        ["corpus.txt"],
    ),
    "export_checkpoint": (
        ["input.weights=results/17/training.npz", "input.vocabulary=results/17/vocab.json",
         "output.checkpoint=checkpoint.npz", "output.description=checkpoint.json"],
        ["checkpoint.npz"],
    ),
}  # fmt: skip


def started(command: list[str], lab: TinyLab) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(lab.root / "src")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=lab.root, env=environment, start_new_session=True, **quiet)


def killed_after(seconds: float, process: subprocess.Popen, group: bool = False) -> bool:
    """Kill a process, or all of its session, unless it ends by itself before; whether it was killed."""
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        return True


@pytest.mark.parametrize("script", JOBS)
@fault(
    "`kill -9` of a job at any moment",
    None,
    "Each of its files is there whole, or not at all; the same command builds what is missing, byte for byte.",
)
def test_a_killed_job_leaves_whole_files_or_none(tiny: TinyLab, script: str):
    arguments, outputs = JOBS[script]
    command = [sys.executable, f"scripts/{script}.py", *arguments]
    began = time.monotonic()
    assert started(command, tiny).wait() == 0
    took = time.monotonic() - began
    whole = {name: (tiny.root / name).read_bytes() for name in outputs}
    moments, kills = random.Random(17), 0
    for _ in range(MOMENTS // len(JOBS)):
        for name in outputs:
            (tiny.root / name).unlink(missing_ok=True)
        # most of a short script's time is importing; its second half is where it writes
        kills += killed_after(took * moments.uniform(0.4, 1.0), started(command, tiny))
        for name in outputs:
            assert not (tiny.root / name).exists() or (tiny.root / name).read_bytes() == whole[name]
    assert kills > 0, "no kill came before the end"
    assert started(command, tiny).wait() == 0
    assert {name: (tiny.root / name).read_bytes() for name in outputs} == whole


def survives(lab: TinyLab, undisturbed: TinyLab, seconds: float, group: bool) -> bool:
    """Kill a whole build after so many seconds, then go on as documented."""
    was_killed = killed_after(seconds, started(lab.command(), lab), group)
    for name, found in lab.contents().items():
        assert found == undisturbed.contents()[name], f"{name} is not whole after {seconds:.2f} s"
    lab.run("--unlock")
    done = lab.run()
    assert done.returncode == 0, done.stdout
    assert lab.contents() == undisturbed.contents()
    return was_killed


@pytest.mark.parametrize("fraction", [0.4, 0.7])
@fault(
    "`kill -9` of snakemake at any moment",
    None,
    "`snakemake --unlock`, then the same command: it goes on, and the files are the same byte for byte. A job that "
    "outlives its snakemake does no harm: it renames whole files.",
)
def test_a_killed_snakemake_is_gone_on_with(unbuilt: TinyLab, undisturbed: TinyLab, fraction: float):
    assert survives(unbuilt, undisturbed, fraction * undisturbed.seconds, group=fraction == 0.4)


@pytest.mark.slow
@pytest.mark.skipif("LAB_SLOW" not in os.environ, reason="a quarter of an hour; set LAB_SLOW=1")
@pytest.mark.timeout(3600)
def test_fifty_killed_snakemakes(undisturbed: TinyLab, tmp_path: Path):
    from conftest import tiny_lab

    moments, kills, turns = random.Random(17), 0, 0
    while kills < MOMENTS:
        lab = tiny_lab(tmp_path / f"lab {turns}")
        kills += survives(lab, undisturbed, moments.uniform(0, undisturbed.seconds), group=turns % 2 == 0)
        shutil.rmtree(lab.root)
        turns += 1
        assert turns < 4 * MOMENTS, f"only {kills} of {turns} runs of {' '.join(TINY)} were still there to be killed"
