"""The script of a model's health, by hand: what it writes names no path of this machine."""

import json
from pathlib import Path

import yaml
from forks import script

from minilab.device import cpu_device
from minilab.files import read_json

ROOT = Path(__file__).parents[2]


def test_compile_health_writes_what_its_schema_asks_for(tmp_path: Path):
    compiling = {**yaml.safe_load((ROOT / "config.yaml").read_text())["compile"], "backend": "aot_eager"}
    measuring = {"entry": None, "shape": [2, 16], "compile": compiling}
    done = script(
        "compile_health", "wildcards.model=tiny_head", f"wildcards.device={cpu_device()}",
        "input.sources=[config.yaml]", "input.schema=schemas/compile_health.schema.yaml",
        f"params.measuring={json.dumps(measuring)}", f"output.health={tmp_path}/health.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = read_json(tmp_path / "health.json")
    assert (found["model"], found["healthy"], found["config"]["backend"]) == ("tiny_head", True, "aot_eager")
    assert found["benchmark"]["training"] is False
    assert str(ROOT) not in json.dumps(found["benchmark"])
