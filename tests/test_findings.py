"""The findings as they lie there, without a network: the page names each script, and each can be run as it is."""

import os
import re
import subprocess
from pathlib import Path

import pytest

FINDINGS = Path(__file__).parents[1] / "findings"
SCRIPTS = sorted(FINDINGS.glob("*.sh"))
ROW = re.compile(r"^\| `(\w+\.sh)` \| (.+) \| (.+) \| (\d{4}-\d\d-\d\d) \|$", re.M)
PIN = re.compile(r"'([a-z-]+)==([\d.]+)'|(?<=[' ])([a-z-]+)==([\d.]+)(?=[' ])")


def rows() -> dict[str, tuple[str, ...]]:
    """The page's table: script -> what it shows, the versions, the day."""
    return {name: told for name, *told in ROW.findall((FINDINGS / "README.md").read_text(encoding="utf-8"))}


def pins(text: str) -> set[str]:
    """What a script installs, as `package version`."""
    return {f"{one or other} {version or another}" for one, version, other, another in PIN.findall(text)}


def test_the_page_names_every_script_and_no_other():
    assert list(rows()) == [script.name for script in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_can_be_run_as_it_is(script):
    text = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], capture_output=True, text=True).stderr == ""
    assert "mktemp" in text
    _, versions, _ = rows()[script.name]
    assert set(versions.split(", ")) <= pins(text)
    assert all(package in text.splitlines()[1] for package in versions.split(", "))  # the script says them too


@pytest.mark.parametrize(("seen_now", "code"), [("as before\n", 0), ("otherwise\n", 1)])
def test_a_finding_ends_with_1_once_it_is_seen_otherwise(tmp_path, seen_now, code):
    (tmp_path / "output").write_text(seen_now)
    script = f"set -e; folder={tmp_path}; . {FINDINGS}/environment.bash; cd {tmp_path}; finding a b <<< 'as before'"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stdout.splitlines()[-1] == ("as found" if code == 0 else "no longer as found")
    assert not (tmp_path / "output").exists()  # the folder is gone with the script
