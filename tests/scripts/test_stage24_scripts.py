"""Each measuring and reporting script of stage 24 alone, by hand, from plain arguments."""

import json
import shutil
import subprocess
from pathlib import Path

import forks
import pytest

from minikernel.judge.entry import code_of
from minilab.config.check import check_schema, read_schema
from minilab.device import cpu_device, has_cpp_compiler
from minilab.files import read_json
from minilab.records.store import write_artefact

ROOT = Path(__file__).parents[2]
CPU = cpu_device()
RECORD = ROOT / "results/recorded/h200/24"
MEASURING = {"shapes": [[64, 600]], "dtype": "float32", "launches": 100, "warmup": 3, "seed": 42}
MISBEHAVING = "tests/minikernel/misbehaving.py"


def script(name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    done = forks.script(name, *arguments)
    if check and done.returncode:
        raise AssertionError(done.stderr)
    return done


def listed(*paths: Path) -> str:
    return json.dumps([str(path) for path in paths])


def prove(folder: Path, kernel: str, entry: dict | None) -> Path:
    """The proof of one kernel on this CPU, by its script."""
    path = folder / "proof" / f"{kernel}.json"
    script(
        "prove", f"wildcards.device={CPU}", f"wildcards.kernel={kernel}",
        f"params.measuring={json.dumps({'entry': entry})}",
        "params.time_limit_seconds=120", "params.shapes=[]", "input.sources=[]", f"output.report={path}",
    )  # fmt: skip
    return path


def time_kernel(folder: Path, kernel: str, entry: dict | None, proof: Path, limit: float = 300) -> Path:
    """The bench of one kernel on this CPU, by its script."""
    path = folder / "jobs" / f"{kernel}.json"
    measuring = MEASURING | {"kernel": kernel, "entry": entry}
    script(
        "bench_users_kernel" if entry else "bench_kernel",
        f"wildcards.device={CPU}", f"wildcards.kernel={kernel}", f"input.proof={proof}",
        f"params.measuring={json.dumps(measuring)}", f"params.time_limit_seconds={limit}",
        "input.sources=[]", f"output.rows={path}",
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ceilings and bench of this CPU, measured by the scripts."""
    folder = tmp_path_factory.mktemp("measured")
    device = f"wildcards.device={CPU}"
    script("ceilings", device, "input.sources=[]", f"output.ceilings={folder}/ceilings.json")
    proofs, jobs = [], []
    measuring = {kernel: MEASURING | {"kernel": kernel, "entry": None} for kernel in ("numpy", "F.softmax")}
    for kernel in measuring:
        proofs.append(prove(folder, kernel, None))
        jobs.append(folder / "jobs" / f"{kernel}.json")
    script(
        "bench_on_cpu",
        device, f"input.proofs={listed(*proofs)}", f"params.measuring={json.dumps(measuring)}",
        f"params.sources={json.dumps({kernel: [] for kernel in measuring})}", f"output.rows={listed(*jobs)}",
    )  # fmt: skip
    script(
        "bench",
        f"input.jobs={listed(*jobs)}",
        f"input.proofs={listed(*proofs)}",
        "input.schema=schemas/bench.schema.yaml",
        f"output.bench={folder}/bench.json",
    )
    return folder


def test_ceilings(measured: Path):
    ceilings = read_json(measured / "ceilings.json")
    assert ceilings["copy_gb_per_s"] > 0
    assert ceilings["fp32_tflop_per_s"] > 0
    assert ceilings["tf32_tflop_per_s"] is None
    assert ceilings["provenance"]["device"] == CPU


def test_bench(measured: Path):
    bench = read_json(measured / "bench.json")
    assert [row["kernel"] for row in bench["rows"]] == ["numpy", "F.softmax"]
    assert set(bench["kernels"]) == {"numpy", "F.softmax"}
    assert bench["left_out"] == []


def test_a_users_kernel_is_timed_in_a_process_of_its_own(measured: Path, tmp_path: Path):
    entry = {"source": MISBEHAVING, "function": "good"}
    proof = prove(tmp_path, "mine", entry)
    assert read_json(proof)["verdict"] == "proven"
    job = read_json(time_kernel(tmp_path, "mine", entry, proof))
    assert [row["kernel"] for row in job["rows"]] == ["mine"]
    assert job["reason"] is None


def test_a_users_kernel_whose_file_changed_since_its_proof_is_not_timed(measured: Path, tmp_path: Path):
    source = tmp_path / "mine.py"
    source.write_text((ROOT / MISBEHAVING).read_text())
    entry = {"source": str(source), "function": "good"}
    proof = prove(tmp_path, "mine", entry)
    assert read_json(proof)["code"] == code_of("mine", entry)
    source.write_text(source.read_text() + "\ngood = wrong\n")
    job = read_json(time_kernel(tmp_path, "mine", entry, proof))
    assert job["rows"] == []
    assert job["reason"]["code"] == "edited"


@pytest.mark.parametrize(
    ("function", "limit", "said"),
    [
        ("crashes_when_large", 300, {"code": "crashed", "signal": "SIGSEGV"}),
        ("hangs_when_large", 10, {"code": "timed_out", "seconds": 10, "knob": "bench.time_limit_seconds"}),
        ("wrong_when_large", 300, {"code": "wrong", "tolerance": 2e-6}),
    ],
)
def test_what_goes_wrong_only_while_timed_is_left_out_too(
    measured: Path, tmp_path: Path, function: str, limit: float, said: dict
):
    entry = {"source": MISBEHAVING, "function": function}
    proof = prove(tmp_path, "mine", entry)
    assert read_json(proof)["verdict"] == "proven"
    job = time_kernel(tmp_path, "mine", entry, proof, limit)
    assert read_json(job)["rows"] == []
    script(
        "bench", f"input.jobs={listed(measured / 'jobs/numpy.json', job)}", f"input.proofs={listed(proof)}",
        "input.schema=schemas/bench.schema.yaml", f"output.bench={tmp_path}/bench.json",
    )  # fmt: skip
    bench = read_json(tmp_path / "bench.json")
    assert [row["kernel"] for row in bench["rows"]] == ["numpy"]
    assert [out["kernel"] for out in bench["left_out"]] == ["mine"]
    reason = bench["left_out"][0]["reason"]
    assert (reason["at"]["kernel"], reason["at"]["shape"]) == ("mine", [64, 600])
    assert reason.items() >= said.items()


def test_a_kernel_that_failed_its_proof_is_not_timed(tmp_path: Path):
    entry = {"source": MISBEHAVING, "function": "wrong"}
    proof = prove(tmp_path, "mine", entry)
    job = read_json(time_kernel(tmp_path, "mine", entry, proof))
    assert read_json(proof)["verdict"] == "left out"
    assert job["reason"] == read_json(proof)["reason"]
    assert job["rows"] == []


def test_a_record_from_before_kernels_were_left_out_is_still_good():
    bench = read_json(RECORD / "bench.json")
    bench.pop("left_out", None)
    check_schema(bench, read_schema(ROOT / "schemas/bench.schema.yaml"), "bench.json")


def test_bench_refuses_rows_that_do_not_fit(measured: Path, tmp_path: Path):
    job = read_json(measured / "jobs/numpy.json")
    job["rows"][0]["launches"] = 7
    write_artefact(tmp_path / "few.json", job)
    arguments = [
        f"input.jobs={listed(tmp_path / 'few.json')}",
        "input.proofs=[]",
        "input.schema=schemas/bench.schema.yaml",
    ]
    done = script("bench", *arguments, f"output.bench={tmp_path}/bench.json", check=False)
    assert done.returncode == 1
    assert "rows.0.launches cannot be 7" in done.stderr
    assert not (tmp_path / "bench.json").exists()


def test_what_calls_run_into_is_measured(tmp_path: Path):
    script(
        "allocation", f"wildcards.device={CPU}", "params.measuring={shape: [64, 600]}", "input.sources=[]",
        "input.schema=schemas/allocation.schema.yaml", f"output.allocation={tmp_path}/allocation.json",
    )  # fmt: skip
    made = read_json(tmp_path / "allocation.json")
    assert made["provenance"]["device"] == CPU
    assert ("streaming" in made["ways"]) == has_cpp_compiler()


def test_roofline_with_what_a_fresh_result_costs(measured: Path, tmp_path: Path):
    script(
        "roofline",
        f"input.ceilings={listed(measured / 'ceilings.json', RECORD / 'ceilings.json')}",
        f"input.bench={listed(measured / 'bench.json', RECORD / 'bench.json')}",
        "input.head=[]", "params.headline={cuda: [524288, 600], cpu: [64, 600]}",
        "params.language=en",
        f"output.png={tmp_path}/r.png", f"output.svg={tmp_path}/r.svg", f"output.data={tmp_path}/r.json",
    )  # fmt: skip
    panels = read_json(tmp_path / "r.json")["panels"]
    assert {panel["device"]: panel["fresh_copy"] is not None for panel in panels} == {CPU: True, "h200": False}


def test_restore_says_where_it_came_from(checkout: Path):
    path = "results/24/h200/ceilings.json"
    done = forks.script(
        "restore", f"input.record={RECORD}/ceilings.json", f"input.sums={RECORD.parent}/SHA256SUMS",
        "params.measuring={'': {}}", "params.stale=mark", f"output.artefact={path}", "config=config.yaml",
        cwd=checkout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    restored = read_json(checkout / path)
    assert restored["restored"]["from"].endswith("recorded/h200/24/ceilings.json")
    assert restored["copy_gb_per_s"] == read_json(RECORD / "ceilings.json")["copy_gb_per_s"]


def test_record_copies_whole_files(measured: Path, checkout: Path):
    source = Path("results/24", CPU)
    shutil.copytree(measured, checkout / source)
    (checkout / "results/24/roofline.svg").write_text("<svg/>")
    pages = {"results/24/roofline.svg": ["scripts/roofline.py", [str(source / "ceilings.json")]]}
    devices = {CPU: [[str(source / f"{name}.json") for name in ("bench", "ceilings")], pages]}
    done = forks.script(
        "record", f"params.devices={json.dumps(devices)}", "params.recorded=recorded", "params.sign=null", cwd=checkout
    )
    assert done.returncode == 0, done.stderr
    published = checkout / "recorded" / CPU / "24"
    for name in ("bench.json", "ceilings.json"):
        assert (published / name).read_bytes() == (checkout / source / name).read_bytes()
    assert sorted(path.name for path in published.iterdir()) == ["bench.json", "ceilings.json", "roofline.svg"]


def test_a_device_that_is_not_here_is_refused(tmp_path: Path):
    done = script(
        "ceilings", "wildcards.device=z80", "input.sources=[]", f"output.ceilings={tmp_path}/c.json", check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("Error: device z80 is not in this machine")
    assert "Traceback" not in done.stderr
