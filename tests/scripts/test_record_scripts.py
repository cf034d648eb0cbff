"""What is said of records and of builds, by the scripts alone, from plain arguments."""

import json
import shutil
from pathlib import Path

import pytest
from forks import script
from recorded import DEVICE, ceilings, record

from minilab.files import read_json
from minilab.records.checksums import write_sums
from minilab.records.store import write_artefact


@pytest.fixture
def published(checkout: Path) -> Path:
    """A record of a device that stands in for a GPU, as a path in that folder."""
    return record(checkout).relative_to(checkout)


def test_an_altered_figure_ends_the_verification_with_its_name(published: Path, checkout: Path):
    path = checkout / published
    write_artefact(path, {**read_json(path), "copy_gb_per_s": 2.5})
    write_sums(path.parents[1], [path])
    path.with_name("roofline.svg").write_text("<svg></svg>")
    config = f"params.config={json.dumps({'kernels': {}, 'models': {}})}"
    done = script("verify_records", "params.recorded=recorded", config, cwd=checkout)
    assert done.returncode == 1
    assert "| altered | copy_gb_per_s is 2.5, and its samples give 2 |" in done.stderr
    assert "1 fresh, 0 stale, 2 altered" in done.stderr
    assert f"Error: altered since they were published: {published}, " in done.stderr


def test_what_moved_beyond_the_noise_is_said(published: Path, checkout: Path):
    recorded, measured = checkout / f"results/recorded/{DEVICE}", Path(f"results/24/{DEVICE}/ceilings.json")
    shutil.copytree((checkout / published).parents[1], recorded)
    ceilings(checkout / measured, [5.0, 5.1, 4.9] * 20, "2026-02-02")
    done = script("compare_records", f'input.artefacts=["{measured}"]', "params.rules={}", cwd=checkout)
    assert done.returncode == 0
    assert "3 of 3 figures moved beyond the noise of both" in done.stderr
    assert "copy_gb_per_s, microseconds of launch 0: 4 -> 5 (+25.0%" in done.stderr


def test_two_builds_are_locked_and_their_drift_explained(tmp_path: Path):
    result, source = tmp_path / "weights.npz", tmp_path / "training.py"
    made = json.dumps({str(result): {"sources": [str(source)], "config": ["training"], "of": []}})
    for build, seed in (("before", 42), ("after", 43)):
        source.write_text("the same")
        result.write_text(f"weights of {seed}")
        done = script(
            "lock", f"params.config={{training: {{seed: {seed}}}}}", f"params.made={made}",
            f'input.sources=["{source}"]', "input.graphs=[]", "input.autotunes=[]",
            f"output.lock={tmp_path}/{build}.json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = script(
        "explain_drift", f"input.before={tmp_path}/before.json", f"input.after={tmp_path}/after.json",
        f"output.text={tmp_path}/drift.md",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "drift.md").read_text()
    assert text.count("\n- ") == 2
    assert f"- {result} has changed: config training.seed: 42 -> 43" in text
