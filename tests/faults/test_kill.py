"""`kill -9` where a run has said or done so much: no half-written file passes for whole, and the same run goes on."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from declared_faults import fault
from forks import forks
from tiny import RUN_SECONDS, SAID, TINY, TinyLab, tiny_lab

from minilab.device import cpu_device

HERE = Path(__file__).parent
MINE = "{source: mine.py, function: softmax}"
MOMENTS = 50
JOBS = {  # script -> its arguments, and its deterministic outputs
    "corpus": (
        ["input.lexicon=src/minimodel/data/lexicon.yaml", "input.grammar=src/minimodel/data/grammar.yaml",
         "input.lib=[]", "params.corpus={sentences: 3000, held_out: 200, seed: 42}", "output.corpus=corpus.txt",
         "output.vocabulary=vocab.json"],
        ["corpus.txt"],
    ),
    "export_checkpoint": (
        ["input.weights=results/17/training.npz", "input.vocabulary=results/17/vocab.json", "input.lib=[]",
         "output.checkpoint=checkpoint.npz", "output.description=checkpoint.json"],
        ["checkpoint.npz"],
    ),
}  # fmt: skip


def job(lab: TinyLab, script: str, count: Path, moment: int | None = None) -> bool:
    """Run a job by itself; whether it was killed, at its so many-th call since it began to write."""
    program, environment = [HERE / "killed_at.py", count], {**os.environ, "PYTHONPATH": str(lab.root / "src")}
    command = [*program, "none" if moment is None else str(moment), f"scripts/{script}.py", *JOBS[script][0]]
    done = forks("script").run(command, lab.root, environment)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("script", JOBS)
@fault(
    "`kill -9` of a job at any moment",
    None,
    "Each of its files is there whole, or not at all; the same command builds what is missing, byte for byte.",
)
def test_a_killed_job_leaves_whole_files_or_none(tiny: TinyLab, tmp_path: Path, script: str):
    outputs, count = JOBS[script][1], tmp_path / "count"
    assert not job(tiny, script, count)
    whole = {name: (tiny.root / name).read_bytes() for name in outputs}
    moments, calls = random.Random(17), int(count.read_text())
    for _ in range(MOMENTS // len(JOBS)):
        for name in outputs:
            (tiny.root / name).unlink(missing_ok=True)
        assert job(tiny, script, count, moments.randint(1, calls))
        for name in outputs:
            assert not (tiny.root / name).exists() or (tiny.root / name).read_bytes() == whole[name]
    assert not job(tiny, script, count)
    assert {name: (tiny.root / name).read_bytes() for name in outputs} == whole


def killed_after(said: Callable[[str], object], lab: TinyLab, group: bool) -> bool:
    """Start a build, and kill Snakemake, or it and its jobs, once a line for which `said` holds; whether it came."""
    environment = {**os.environ, "PYTHONPATH": str(lab.root / "src")}
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(lab.command(), cwd=lab.root, env=environment, start_new_session=True, **pipe) as process:
        for line in process.stdout:
            if said(line):
                (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
                process.stdout.close()  # which a job that goes on keeps open
                return True
    return False


def survives(lab: TinyLab, undisturbed: TinyLab, said: Callable[[str], object], group: bool) -> bool:
    """Kill a whole build where it says something, then go on as documented."""
    was_killed = killed_after(said, lab, group)
    for name, found in lab.contents().items():
        assert found == undisturbed.contents()[name], f"{name} is not whole"
    lab.run("--unlock")
    done = lab.run()
    assert done.returncode == 0, done.stdout
    assert lab.contents() == undisturbed.contents()
    return was_killed


@pytest.mark.parametrize(("rule", "group"), [("train", True), ("port", False)])
@fault(
    "`kill -9` of snakemake at any moment",
    None,
    "`snakemake --unlock`, then the same command: it goes on, and the files are the same byte for byte. A job that "
    "outlives its snakemake does no harm: it renames whole files.",
)
def test_a_killed_snakemake_is_gone_on_with(unbuilt: TinyLab, undisturbed: TinyLab, rule: str, group: bool):
    assert survives(unbuilt, undisturbed, lambda line: re.match(rf"Job \d+: {rule}: ", line), group)


HANGING = """
import os, subprocess, time

def softmax(x):
    daemon = subprocess.Popen(["sleep", "631"], start_new_session=True)
    open("running.part", "w").write(f"{os.getpid()} {daemon.pid}")
    os.rename("running.part", "running")
    time.sleep(632)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@fault(
    "snakemake and its jobs are killed while a kernel or model of yours runs",
    None,
    "Nothing of it is left running, in whatever session, on the processor or on the GPU.",
)
def test_code_of_yours_ends_with_snakemake(tiny: TinyLab, number: int):
    (tiny.root / "mine.py").write_text(HANGING)
    tiny.edit("config.yaml", lambda text: text.replace("\nkernels:", f"\nkernels:\n  mine: {MINE}", 1))
    environment = {**os.environ, "PYTHONPATH": str(tiny.root / "src")}
    command = tiny.command(f"results/24/{cpu_device()}/proof/mine.json", *TINY[1:])
    process = subprocess.Popen(
        command,
        cwd=tiny.root,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + RUN_SECONDS
    while not (tiny.root / "running").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    pids = [int(pid) for pid in (tiny.root / "running").read_text().split()]
    os.killpg(process.pid, number)
    process.wait()
    until = time.monotonic() + 60
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, pids))


@pytest.mark.slow
@pytest.mark.skipif("LAB_SLOW" not in os.environ, reason="a quarter of an hour; set LAB_SLOW=1")
@pytest.mark.timeout(3600)
def test_fifty_killed_snakemakes(undisturbed: TinyLab, tmp_path: Path):
    moments, lines = random.Random(17), len((undisturbed.root / SAID).read_text().splitlines())
    for turn in range(MOMENTS):
        lab = tiny_lab(tmp_path / f"lab {turn}")
        left = iter(range(moments.randrange(lines), -1, -1))
        assert survives(lab, undisturbed, lambda line, left=left: next(left) == 0, group=turn % 2 == 0)
        shutil.rmtree(lab.root)
