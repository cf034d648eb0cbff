"""Rewrite the generated parts of docs/torch_compile.md and its pages: `python scripts/compile_playbook.py`.

What failures say under the installed torch is kept beside what they said under others: run it on each release that is
supported.
"""

from pathlib import Path

from docs.build.playbook import refresh, remember_failures
from minilab.files import write_text
from minilab.script import run


def main(job) -> None:
    remember_failures()
    docs = Path(job.params.get("docs", "docs"))
    for page in [docs / "torch_compile.md", *sorted((docs / "torch_compile").glob("*.md"))]:
        write_text(page, refresh(page.read_text()))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
