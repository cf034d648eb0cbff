"""What a run of the workflow on a CPU does not do: a user's kernel proven, then timed, by the scripts alone."""

import json
import subprocess
from pathlib import Path

import forks
import pytest

from minikernel.judge.entry import code_of
from minilab.device import cpu_device
from minilab.files import read_json

ROOT = Path(__file__).parents[2]
CPU = cpu_device()
MEASURING = {"shapes": [[64, 600]], "dtype": "float32", "launches": 100, "warmup": 3, "seed": 42}
MISBEHAVING = "tests/minikernel/misbehaving.py"


def script(name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    done = forks.script(name, *arguments)
    if check and done.returncode:
        raise AssertionError(done.stderr)
    return done


def listed(*paths: Path) -> str:
    return json.dumps([str(path) for path in paths])


def prove(folder: Path, kernel: str, entry: dict) -> Path:
    """The proof of one kernel on this CPU, by its script."""
    path = folder / "proof" / f"{kernel}.json"
    script(
        "prove", f"wildcards.device={CPU}", f"wildcards.kernel={kernel}",
        f"params.measuring={json.dumps({'entry': entry})}",
        "params.time_limit_seconds=120", "params.shapes=[]", "input.sources=[]", f"output.report={path}",
    )  # fmt: skip
    return path


def time_kernel(folder: Path, kernel: str, entry: dict, proof: Path, more: dict | None = None) -> Path:
    """The bench of one kernel on this CPU, by its script."""
    path = folder / "jobs" / f"{kernel}.json"
    measuring = MEASURING | {"kernel": kernel, "entry": entry} | (more or {})
    script(
        "bench_users_kernel", f"wildcards.device={CPU}", f"wildcards.kernel={kernel}", f"input.proof={proof}",
        f"params.measuring={json.dumps(measuring)}", "params.time_limit_seconds=300",
        "input.sources=[]", f"output.rows={path}",
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's kernel `mine.py`, its proof and its times."""
    folder = tmp_path_factory.mktemp("good")
    source = folder / "mine.py"
    source.write_text((ROOT / MISBEHAVING).read_text())
    entry = {"source": str(source), "function": "good"}
    time_kernel(folder, "mine", entry, prove(folder, "mine", entry))
    return folder


def test_a_users_kernel_is_timed_unless_its_file_has_changed_since_its_proof(good: Path, tmp_path: Path):
    proof, job, source = good / "proof/mine.json", read_json(good / "jobs/mine.json"), good / "mine.py"
    entry = {"source": str(source), "function": "good"}
    assert read_json(proof)["verdict"] == "proven"
    assert read_json(proof)["code"] == code_of("mine", entry)
    assert [row["kernel"] for row in job["rows"]] == ["mine"]
    assert job["reason"] is None
    source.write_text(source.read_text() + "\ngood = wrong\n")
    job = read_json(time_kernel(tmp_path, "mine", entry, proof))
    assert job["rows"] == []
    assert job["reason"]["code"] == "edited"


def test_what_goes_wrong_in_its_proof_or_only_while_timed_is_left_out(good: Path, tmp_path: Path):
    proofs, jobs = [], [good / "jobs/mine.json"]
    for function, verdict in (("wrong", "left out"), ("crashes_when_large", "proven")):
        entry = {"source": MISBEHAVING, "function": function}
        proofs.append(prove(tmp_path, function, entry))
        assert read_json(proofs[-1])["verdict"] == verdict
        jobs.append(time_kernel(tmp_path, function, entry, proofs[-1]))
    script(
        "bench", f"input.jobs={listed(*jobs)}", f"input.proofs={listed(*proofs)}",
        "input.schema=schemas/bench.schema.yaml", f"output.bench={tmp_path}/bench.json",
    )  # fmt: skip
    bench = read_json(tmp_path / "bench.json")
    assert [row["kernel"] for row in bench["rows"]] == ["mine"]
    reasons = {out["kernel"]: out["reason"] for out in bench["left_out"]}
    assert reasons["wrong"] == read_json(proofs[0])["reason"]
    crashed = reasons["crashes_when_large"]
    assert (crashed["at"]["shape"], crashed["code"], crashed["signal"]) == ([64, 600], "crashed", "SIGSEGV")


def test_a_file_beside_the_kernel_and_a_size_that_32_bits_cannot_number_belong_to_its_proof(tmp_path: Path):
    source, beside, entry = tmp_path / "mine.py", tmp_path / "beside.py", {"function": "softmax"}
    source.write_text("import torch\nfrom beside import axis\n\n\ndef softmax(x):\n    return torch.softmax(x, axis)\n")
    beside.write_text("axis = -1\n")
    entry["source"] = str(source)
    proof = prove(tmp_path, "mine", entry)
    largest = max((case["rows"] * case["cols"], case["rows"], case["cols"]) for case in read_json(proof)["cases"])
    assert read_json(proof)["proven_up_to"] == list(largest[1:])
    too_large = {"shapes": [[64, 600], [2**22, 513]]}
    job = read_json(time_kernel(tmp_path, "mine", entry, proof, too_large))
    assert job["rows"] == []
    assert (job["reason"]["code"], job["reason"]["elements"]) == ("unproven_size", 2**22 * 513)
    beside.write_text("axis = 0\n")
    job = read_json(time_kernel(tmp_path, "mine", entry, proof))
    assert job["rows"] == []
    assert job["reason"]["code"] == "edited"


def test_a_device_that_is_not_here_is_refused(tmp_path: Path):
    done = script(
        "ceilings", "wildcards.device=z80", "input.sources=[]", f"output.ceilings={tmp_path}/c.json", check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("Error: device z80 is not in this machine")
    assert "Traceback" not in done.stderr
