"""A script under Snakemake and by hand: one log, one sentence, one exit status."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from minilab import LabError
from minilab.script import parse_arguments, run


def test_plain_arguments():
    job = parse_arguments(["input.corpus=a.txt", "params.seed=42", "params.shape=[2, 16]", "threads=3", "log=x.log"])
    assert job.input.corpus == "a.txt"
    assert (job.params.seed, job.params.shape, job.threads, job.log) == (42, [2, 16], 3, ["x.log"])
    assert job.params.get("absent") is None


@pytest.mark.parametrize("argument", ["corpus", "corpus=a", "nowhere.corpus=a"])
def test_other_arguments_are_refused(argument):
    with pytest.raises(LabError, match=r"write section\.name=value"):
        parse_arguments([argument])


def failing(error):
    def main(job):
        raise error

    return main


def test_refusal_is_one_sentence_in_the_log_too(tmp_path, capsys):
    job = SimpleNamespace(log=[str(tmp_path / "job.log")], resources={})
    with pytest.raises(SystemExit) as ended:
        run(failing(LabError("The file is empty; write it.")), job)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "Error: The file is empty; write it.\n"
    assert (tmp_path / "job.log").read_text() == "Error: The file is empty; write it.\n"


def test_bug_keeps_its_traceback(tmp_path):
    job = SimpleNamespace(log=[str(tmp_path / "job.log")], resources={})
    with pytest.raises(SystemExit):
        run(failing(ZeroDivisionError("oops")), job)
    assert "ZeroDivisionError: oops" in (tmp_path / "job.log").read_text()


@pytest.mark.parametrize(("said", "held"), [(None, "1"), ("0", "0")])
def test_what_triton_would_decide_by_its_version_is_settled_unless_the_user_has_said(said, held, monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", said or "")
    if said is None:
        monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION")
    seen = []
    run(lambda job: seen.append(os.environ["TRITON_DEFAULT_FP_FUSION"]), SimpleNamespace(log=[], resources={}))
    assert seen == [held]


CYCLE = """
from minilab.script import run

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("looked through")

def main(job):
    Cycle()
    print("worked")

run(main, None)
"""


def test_at_its_end_nothing_is_looked_through_for_garbage(tmp_path):
    script = tmp_path / "cycle.py"
    script.write_text(CYCLE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "worked\n")
