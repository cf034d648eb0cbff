"""Rewrite the generated parts of docs/torch_compile.md and its pages: `python scripts/compile_playbook.py`."""

from pathlib import Path

from minicompile.safe.playbook import refresh
from minilab.files import write_text
from minilab.script import run


def main(job) -> None:
    docs = Path(job.params.get("docs", "docs"))
    for page in [docs / "torch_compile.md", *sorted((docs / "torch_compile").glob("*.md"))]:
        write_text(page, refresh(page.read_text()))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
