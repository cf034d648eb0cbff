"""A job's parameter `content` is another exactly when what its result follows from is."""

import os
from pathlib import Path

import pytest

from minilab.records.provenance import provenance
from minilab.records.sources import content as module
from minilab.records.sources.content import changed_since, content, noting
from minilab.user_code import load_function

OUTPUT = ["results/24/cpu/proof/mine.json"]
INPUTS = ["mine/kernel.py", "results/17/corpus.txt"]
AGO = (1_600_000_000, 1_600_000_000)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a job on a kernel that reads `mine/scale.txt`, with the parameter of a plan before it; its provenance."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(module.NOTES, raising=False)
    monkeypatch.setattr("minilab.user_files._notes", [])
    Path("mine").mkdir()
    Path("mine/kernel.py").write_text("def f(): return open('mine/scale.txt').read()\n")
    Path("mine/scale.txt").write_text("1")

    def run(change=lambda: None) -> dict:
        with noting(planned(), INPUTS, OUTPUT):
            monkeypatch.setattr("minilab.user_files._notes", [])  # as in a process of its own
            load_function("kernel", "mine", "mine/kernel.py", "f")()
            change()
            return provenance(["mine/kernel.py"], {})

    return run


def planned() -> str:
    """The parameter as another process finds it."""
    module._print_of.cache_clear()
    return content(INPUTS, OUTPUT)


def test_what_was_opened_counts_from_the_first_run_on_and_by_content(job):
    before = planned()
    made = job()
    assert planned() == before  # the plan that knows it is no reason to run again
    assert set(made["opened"]) == {"mine/scale.txt"}
    Path("mine/scale.txt").touch()
    assert (planned(), changed_since(made)) == (before, [])
    Path("mine/scale.txt").write_text("2")
    os.utime("mine/scale.txt", AGO)
    changed = planned()
    assert (changed != before, changed_since(made)) == (True, ["mine/scale.txt"])
    job()
    assert planned() == changed
    Path("mine/scale.txt").write_text("1")  # back: what is there was made with 2
    assert planned() != changed
    Path("mine/scale.txt").unlink()
    assert planned() != changed


def test_a_source_counts_by_its_bytes_and_a_result_by_what_made_it(job):
    job()
    before = planned()
    Path("results/17").mkdir(parents=True)
    Path("results/17/corpus.txt").write_text("words")
    assert planned() == before
    Path("mine/kernel.py").write_text("def f(): return 2\n")
    os.utime("mine/kernel.py", AGO)
    assert planned() != before


def test_what_is_edited_while_the_job_runs_is_run_again(job):
    before = planned()
    job(lambda: Path("mine/scale.txt").write_text("3"))
    assert planned() != before


def test_a_job_that_opened_nothing_leaves_no_note(job):
    Path("mine/kernel.py").write_text("def f(): return 2\n")
    before = planned()
    job()
    assert planned() == before
    assert not module.KEPT.exists()
