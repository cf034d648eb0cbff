"""Which of the lab's own modules a script uses, read from its import statements.

Snakemake reruns a job when its declared inputs change, and a module under `src/` is one only if it is
declared. Reading the imports keeps that declaration true by itself. Imports made inside functions count;
names built at run time do not, so a registry may load kernels by name without tying them all together.
`minilab` is left out: plumbing moves results about and does not decide them.
"""

import ast
from functools import cache
from pathlib import Path

PLUMBING = "minilab"


def _module_file(name: str, src: Path) -> Path | None:
    path = src.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


@cache
def _imported_names(file: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from a import b` may name a module a.b; a name that is not one is dropped later.
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def modules_used_by(script: str | Path, src: str | Path = "src") -> list[str]:
    """The files under `src` that `script` imports, directly or through one another, sorted."""
    src = Path(src)
    waiting, found = [Path(script)], set()
    while waiting:
        for name in _imported_names(waiting.pop()):
            parts = name.split(".")
            if parts[0] == PLUMBING:
                continue
            for depth in range(1, len(parts) + 1):  # importing a.b runs a/__init__.py too
                file = _module_file(".".join(parts[:depth]), src)
                if file and file not in found:
                    found.add(file)
                    waiting.append(file)
    return sorted(map(str, found))
