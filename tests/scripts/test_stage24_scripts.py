"""Each measuring and reporting script of stage 24 alone, by hand, from plain arguments."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minilab.device import cpu_device
from minilab.files import read_json

ROOT = Path(__file__).parents[2]
CPU = cpu_device()
RECORD = ROOT / "results/recorded/h200/24"
MEASURING = (
    '{"shapes": [[64, 600]], "dtype": "float32", "launches": 100, "warmup": 3, "seed": 42, "kernel": K, "entry": null}'
)


def script(name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if check and done.returncode:
        raise AssertionError(done.stderr)
    return done


def listed(*paths: Path) -> str:
    return json.dumps([str(path) for path in paths])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ceilings and bench of this CPU, measured by the scripts."""
    folder = tmp_path_factory.mktemp("measured")
    device = f"wildcards.device={CPU}"
    script("ceilings", device, "input.probes=[]", f"output.ceilings={folder}/ceilings.json")
    jobs = []
    for kernel in ("numpy", "F.softmax"):
        jobs.append(folder / f"{kernel}.json")
        measuring = MEASURING.replace("K", f'"{kernel}"')
        script(
            "bench_kernel", device, f"wildcards.kernel={kernel}", f"params.measuring={measuring}",
            "input.kernel=[]", f"output.rows={jobs[-1]}",
        )  # fmt: skip
    script(
        "bench",
        f"input.jobs={listed(*jobs)}",
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


def test_bench_refuses_rows_that_do_not_fit(measured: Path, tmp_path: Path):
    job = read_json(measured / "numpy.json")
    job["rows"][0]["launches"] = 7
    (tmp_path / "few.json").write_text(json.dumps(job))
    arguments = [f"input.jobs={listed(tmp_path / 'few.json')}", "input.schema=schemas/bench.schema.yaml"]
    done = script("bench", *arguments, f"output.bench={tmp_path}/bench.json", check=False)
    assert done.returncode == 1
    assert "rows.0.launches cannot be 7" in done.stderr
    assert not (tmp_path / "bench.json").exists()


def test_roofline(measured: Path, tmp_path: Path):
    script(
        "roofline",
        f"input.ceilings={listed(measured / 'ceilings.json', RECORD / 'ceilings.json')}",
        f"input.bench={listed(measured / 'bench.json', RECORD / 'bench.json')}",
        "params.headline={cuda: [524288, 600], cpu: [64, 600]}",
        f"output.png={tmp_path}/r.png", f"output.svg={tmp_path}/r.svg", f"output.data={tmp_path}/r.json",
    )  # fmt: skip
    panels = read_json(tmp_path / "r.json")["panels"]
    assert {panel["device"] for panel in panels} == {CPU, "h200"}


def test_restore_says_where_it_came_from(tmp_path: Path):
    script(
        "restore", "wildcards.device=h200", "wildcards.artefact=ceilings", f"input.record={RECORD}/ceilings.json",
        "params.today={}", "params.stale=mark", f"output.artefact={tmp_path}/ceilings.json",
    )  # fmt: skip
    restored = read_json(tmp_path / "ceilings.json")
    assert restored["restored"]["from"].endswith("recorded/h200/24/ceilings.json")
    assert restored["copy_gb_per_s"] == read_json(RECORD / "ceilings.json")["copy_gb_per_s"]


def test_record_copies_whole_files(measured: Path, tmp_path: Path):
    source = tmp_path / "results" / CPU
    shutil.copytree(measured, source)
    script(
        "record", f"params.devices=[{CPU}]", f"params.recorded={tmp_path}/recorded",
        f"input.artefacts={listed(source / 'bench.json')}", f"input.pictures={listed(source / 'ceilings.json')}",
    )  # fmt: skip
    published = tmp_path / "recorded" / CPU / "24"
    assert (published / "bench.json").read_bytes() == (source / "bench.json").read_bytes()
    assert sorted(path.name for path in published.iterdir()) == ["bench.json", "ceilings.json"]


def test_a_device_that_is_not_here_is_refused(tmp_path: Path):
    done = script(
        "ceilings", "wildcards.device=z80", "input.probes=[]", f"output.ceilings={tmp_path}/c.json", check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("Error: device z80 is not in this machine")
    assert "Traceback" not in done.stderr
