"""A machine that is not as it should be: no disk, memory, home or network, odd paths and clocks, two at once."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from declared_faults import check_says, fault
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


@fault(
    "this machine has no memory left",
    "this machine has no memory left (...); end what else uses it, or make the shapes in config.yaml smaller.",
    "The job's outputs are not there; the other jobs go on.",
)
@pytest.mark.parametrize("library", ["NumPy", "torch"])
def test_out_of_this_machines_memory(library: str, tmp_path: Path, capsys: pytest.CaptureFixture, says: str):
    def main(job):
        np.empty(1 << 60, np.uint8) if library == "NumPy" else torch.empty(1 << 60, dtype=torch.uint8)

    with pytest.raises(SystemExit) as ended:
        run(main, SimpleNamespace(log=[str(tmp_path / "job.log")], resources={}))
    assert ended.value.code == 1
    check_says(capsys.readouterr().err, says)


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


@fault("the clock was an hour behind when the inputs were written", None, "Nothing is built again.")
def test_a_clock_an_hour_behind(tiny: TinyLab, undisturbed: TinyLab):
    moment = time.time() - 3600
    for name in ("src/minimodel/data/grammar.yaml", "results/17/checkpoint.npz"):
        os.utime(tiny.root / name, (moment, moment))
    done = tiny.run()
    assert done.returncode == 0, done.stdout
    assert tiny.contents() == undisturbed.contents()


@fault(
    "the clock was an hour ahead when the inputs were written",
    "src/minimodel/data/grammar.yaml was written ... seconds from now by this machine's clock, so that whatever is "
    "built from it would count as too old; set the clock, or `touch src/minimodel/data/grammar.yaml`.",
    "Nothing has run, and every result stays.",
)
def test_a_clock_an_hour_ahead(tiny: TinyLab, undisturbed: TinyLab, says: str):
    moment = time.time() + 3600
    os.utime(tiny.root / "src/minimodel/data/grammar.yaml", (moment, moment))
    done = tiny.run()
    assert done.returncode
    check_says(done.stdout, says)
    assert tiny.contents() == undisturbed.contents()


@fault(
    "a file is called `logs`",
    "logs is a file where the lab needs a folder; move it away and run the same command again.",
    "Nothing has run.",
)
def test_logs_is_a_file(unbuilt: TinyLab, says: str):
    (unbuilt.root / "logs").write_text("notes")
    done = unbuilt.run()
    assert done.returncode
    check_says(done.stdout, says)


@fault(
    "the path of the lab has braces in it",
    "the path of the lab, ..., has braces in it, which Snakemake takes for wildcards; rename that folder.",
    "Nothing has run.",
)
def test_braces_in_the_path(tmp_path: Path, says: str):
    done = tiny_lab(tmp_path / "my {lab}").run()
    assert done.returncode
    check_says(done.stdout, says)


@fault("the locale is plain ASCII", None, "The results are the same, byte for byte: files are read as UTF-8 anyway.")
def test_an_ascii_locale(unbuilt: TinyLab, undisturbed: TinyLab):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = unbuilt.run(CORPUS, *TINY[1:], behind=("env",), environment=ascii_only)
    assert done.returncode == 0, done.stdout
    assert unbuilt.contents()[CORPUS] == undisturbed.contents()[CORPUS]


@fault(
    "files may not become large (`ulimit -f`)",
    f"a file may not become as large as this one (`ulimit -f` says how large) (File too large); {AGAIN}",
    "What was whole stays.",
)
def test_a_limit_of_file_sizes(unbuilt: TinyLab, says: str):
    done = unbuilt.run(CORPUS, *TINY[1:], behind=("bash", "-c", 'ulimit -f 100; exec "$@"', "bash"))
    assert done.returncode
    check_says(done.stdout, says)
    assert unbuilt.contents() == {}


@needs_root
@fault(
    "the disk of the logs alone is full",
    f"the disk is full at ...corpus.log (No space left on device); {AGAIN}",
    "The job that could not write its log has ended; what was whole stays.",
)
def test_a_full_disk_of_logs(unbuilt: TinyLab, says: str):
    logs = unbuilt.root / "logs"
    logs.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=4k", "tmpfs", str(logs)):
        (logs / "others").write_bytes(bytes(4096))
        done = unbuilt.run(CORPUS, *TINY[1:])
        assert done.returncode
        check_says(done.stdout, says)


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
