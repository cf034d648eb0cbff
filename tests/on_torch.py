"""Names the suites that depend on torch, and keeps what came of one; for tests/on_torch.sh.

Without arguments it prints the suites. `on_torch.py SUITE STATUS REPORT` adds a run to docs/build/data/on_torch.json:
its exit status, and its report as pytest's `--junitxml` writes it, where there is one.
"""

import re
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

from minilab.files import read_json, write_json

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs/build/data/on_torch.json"


def suites() -> list[str]:
    """Folders with tests, below tests/, of the packages that import torch."""
    packages = [folder for folder in (HERE.parent / "src").iterdir() if any(map(_imports_torch, folder.rglob("*.py")))]
    tests = [path for package in packages for path in (HERE / package.name).rglob("test_*.py")]
    return sorted({str(path.parent.relative_to(HERE)) for path in tests})


def _imports_torch(path: Path) -> bool:
    return re.search(r"^(import|from) torch\b", path.read_text(), re.M) is not None


def outcome(status: int, report: Path) -> dict:
    """Count `passed` and `skipped` tests, and name those that `failed`; without a report the run itself is the test."""
    if not report.exists():
        return {"passed": int(status == 0), "skipped": 0, "failed": [] if status == 0 else [f"exit status {status}"]}
    cases = list(ET.parse(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    names = sorted({f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}" for case in failed})
    return {"passed": len(cases) - len(failed) - skipped, "skipped": skipped, "failed": names}


def keep(suite: str, status: int, report: Path, results: Path = RESULTS) -> None:
    """Put the run of a suite, with the torch that is installed, in the place of the last one."""
    known = read_json(results) if results.exists() else {}
    day = datetime.now(UTC).date().isoformat()
    known.setdefault(_torch(), {})[suite] = {"date": day, **outcome(status, report)}
    write_json(results, known)


def _torch() -> str:
    """The version with its build, `2.15.0+cu132`, which the metadata of a default wheel leave out."""
    import torch

    return str(torch.__version__)


if __name__ == "__main__":
    if sys.argv[1:]:
        keep(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(*suites(), sep="\n")
