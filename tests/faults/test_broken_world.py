"""A machine that is not as it should be: no disk, memory, home or network, odd paths and clocks, two at once."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from faults import check_says, fault
from tiny import RUN_SECONDS, TINY, TinyLab, mounted, needs_root, tiny_lab

from minilab.script import run

CORPUS = "results/17/corpus.txt"
AGAIN = "nothing half-written is left, so mend that and run the same command again."


@needs_root
@fault(
    "the disk is full",
    f"the disk is full... (No space left on device); {AGAIN}",
    "What was whole stays; with room, the same command goes on and gives the same files.",
)
def test_a_full_disk(unbuilt: TinyLab, undisturbed: TinyLab, says: str):
    results = unbuilt.root / "results"
    room = (undisturbed.root / "results/17/corpus.txt").stat().st_size // 2
    with mounted("-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(results)):
        done = unbuilt.run()
        assert done.returncode
        check_says(done.stdout, says)
        assert unbuilt.contents() == {}
        assert unbuilt.leftovers() == []
    assert unbuilt.run(CORPUS, *TINY[1:]).returncode == 0
    assert unbuilt.contents()[CORPUS] == undisturbed.contents()[CORPUS]


@needs_root
@fault(
    "the results folder cannot be written",
    "Write-protected output files for rule export_checkpoint:",
    "What is there stays as it is.",
)
def test_a_read_only_results_folder(tiny: TinyLab, undisturbed: TinyLab, says: str):
    results = str(tiny.root / "results/17")
    with mounted("--bind", results, results):
        subprocess.run(["mount", "-o", "remount,ro,bind", results], check=True)
        done = tiny.run(*TINY, "--forcerun", "export_checkpoint")
        assert done.returncode
        check_says(done.stdout, says)
    assert tiny.contents() == undisturbed.contents()


@pytest.mark.parametrize("module", ["torch", "cupy"])
@fault(
    "the GPU has no memory left",
    "the GPU has no memory left (...); end what else uses it (on a GPU `nvidia-smi` lists it), or make the shapes in "
    "config.yaml smaller.",
    "The job's outputs are not there; the other jobs go on.",
)
def test_out_of_gpu_memory(module: str, tmp_path: Path, capsys: pytest.CaptureFixture, says: str):
    # Simulated where a script meets its frame: torch's and CuPy's exceptions are those that a full GPU raises.
    OutOfMemoryError = type("OutOfMemoryError", (RuntimeError if module == "torch" else MemoryError,), {})

    def main(job):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 6.60 GiB.\nmore")

    job = SimpleNamespace(log=[str(tmp_path / "job.log")], resources={})
    with pytest.raises(SystemExit) as ended:
        run(main, job)
    assert ended.value.code == 1
    for text in (capsys.readouterr().err, (tmp_path / "job.log").read_text()):
        check_says(text, says)


@needs_root
@fault("the path has spaces and letters beyond ASCII", None, "The results are the same, byte for byte.")
@fault("no network", None, "The results are the same, byte for byte: no rule fetches anything.")
@fault(
    "no home directory",
    None,
    "The results are the same, byte for byte. Snakemake itself wants a folder for its cache: set `XDG_CACHE_HOME` to "
    "one that can be written.",
)
def test_no_home_no_network_and_an_odd_path(undisturbed: TinyLab, tmp_path: Path):
    lab = tiny_lab(tmp_path / "größtes Labor, 猫's")
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": str(lab.root / ".cache"), "XDG_CONFIG_HOME": None}
    done = lab.run(behind=("unshare", "--net"), environment=nowhere)
    assert done.returncode == 0, done.stdout
    assert lab.contents() == undisturbed.contents()


@fault("the locale knows ASCII alone", None, "The results are the same, byte for byte.")
def test_a_locale_of_ascii(undisturbed: TinyLab, tmp_path: Path):
    lab = tiny_lab(tmp_path / "lab")
    ascii_alone = {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
    done = lab.run(*TINY, "--config", "language=es", behind=("env",), environment=ascii_alone)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    assert lab.contents() == undisturbed.contents()


@fault(
    "a shell's limit on the size of files is too small",
    "a file would be larger than this shell allows (`ulimit -f`)... (File too large); nothing half-written is left, so "
    "mend that and run the same command again.",
    "What was whole stays; with another limit, the same command goes on and gives the same files.",
)
def test_a_limit_on_files(tiny: TinyLab, undisturbed: TinyLab, says: str):
    (tiny.root / "results/24/minigpt.safetensors").unlink()
    done = tiny.run("results/24/minigpt.safetensors", *TINY[1:], behind=("prlimit", "--fsize=20000"))
    assert done.returncode
    check_says(done.stdout, says)
    assert not (tiny.root / "results/24/minigpt.safetensors").exists()
    assert tiny.run("results/24/minigpt.safetensors", *TINY[1:]).returncode == 0
    assert tiny.contents() == undisturbed.contents()


@pytest.mark.parametrize("hours", [1, -1])
@fault(
    "the clock was an hour off when the inputs were written",
    None,
    "An hour behind: nothing happens. An hour ahead: what is built from them is built again, and is the same.",
)
def test_a_clock_an_hour_off(tiny: TinyLab, undisturbed: TinyLab, hours: int):
    moment = time.time() + 3600 * hours
    for name in ("src/minimodel/data/grammar.yaml", "results/17/checkpoint.npz"):
        os.utime(tiny.root / name, (moment, moment))
    done = tiny.run()
    assert done.returncode == 0, done.stdout
    assert tiny.contents() == undisturbed.contents()


@fault(
    "two snakemakes in one folder at once",
    "LockException:",
    "The second one ends at once and says how to go on; the first is not disturbed.",
)
def test_two_at_once(unbuilt: TinyLab, undisturbed: TinyLab, says: str):
    environment = {**os.environ, "PYTHONPATH": str(unbuilt.root / "src")}
    first = subprocess.Popen(
        unbuilt.command(CORPUS, *TINY[1:]),
        cwd=unbuilt.root,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    locks = unbuilt.root / ".snakemake/locks"  # one that is empty does not say yet what it locks
    while not any(lock.stat().st_size for lock in locks.glob("*.output.lock")) and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # so that it cannot end before the other one begins
    try:
        second = unbuilt.run()
    finally:
        first.send_signal(signal.SIGCONT)
    assert second.returncode
    check_says(second.stdout, says)
    assert "It can be removed with the --unlock argument" in second.stdout
    assert first.wait(timeout=RUN_SECONDS) == 0
    assert unbuilt.contents()[CORPUS] == undisturbed.contents()[CORPUS]
