"""`tests/sanitize.sh` with a stand-in for compute-sanitizer: what each tool is given to look at, and the exit."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOSS = ROOT / "src/minikernel/ops/linear_cross_entropy"
STAND_IN = """#!/usr/bin/env bash
printf '%s|' "$@"; echo
[ "$2" != "$REPORTS" ]
"""


def asked(folder: Path, *tools: str, reports: str = "nothing") -> tuple[int, list[list[str]]]:
    """The script's exit status, and the arguments of each call of the sanitizer."""
    stand_in = folder / "compute-sanitizer"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    found = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "REPORTS": reports}
    done = subprocess.run(
        [ROOT / "tests/sanitize.sh", *tools], env=found, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, [line.split("|") for line in done.stdout.splitlines() if line.startswith("--tool")]


def watched(call: list[str], kernel: str) -> bool:
    parts = [it.removeprefix("kns=") for it in call if it.startswith("kns=")]
    return not parts or any(part in kernel for part in parts)


def test_memory_and_races_of_every_kernel_of_the_loss_and_of_the_training_are_looked_at(tmp_path):
    texts = [path.read_text() for path in LOSS.glob("*.py")]
    of_loss = {name for text in texts for name in re.findall(r"^def (\w+_kernel)\(", text, re.MULTILINE)}
    assert len(of_loss) >= 5
    status, calls = asked(tmp_path, "memcheck", "racecheck")
    assert status == 0
    for tool in ("memcheck", "racecheck"):
        here = [call for call in calls if call[1] == tool]
        for kernels, file in ((of_loss, "small_loss"), ({"train_minigpt", "train_phase"}, "small_training")):
            for kernel in kernels:
                assert any(watched(call, kernel) and any(file in it for it in call) for call in here), (tool, kernel)
    files = [it for call in calls for it in call if it.startswith("tests/")]
    for file, _, name in (it.partition("::") for it in files):
        assert f"def {name}" in (ROOT / file).read_text()
        assert "pytest.mark.gpu" in (ROOT / file).read_text()


def test_what_one_tool_reports_hides_no_other(tmp_path):
    status, calls = asked(tmp_path, reports="racecheck")
    assert status == 1
    assert list(dict.fromkeys(call[1] for call in calls)) == ["memcheck", "racecheck", "synccheck", "initcheck"]
