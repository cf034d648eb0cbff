"""Rewrite the concept pages and their figures under docs/ from the record: `python scripts/concept_pages.py`.

To be run after `snakemake record`, and after a new torch, whose kernels two of the pages quote.
"""

from pathlib import Path

from docs.build.concept_pages import facts, read_config, write_pages
from minicompile import capture
from minicompile.models import tiny_head
from minilab.files import read_json
from minilab.script import run


def main(job) -> None:
    record = Path(job.input.get("record", "results/recorded/h200/24"))
    made = job.input.get("capture")
    head = tiny_head()
    captured = read_json(made) if made else capture(head.module, head.inputs, target="simulated", name=head.name)
    config = read_config(job.input.get("config", "config.yaml"))
    write_pages(facts(record, config, captured), Path(job.params.get("docs", "docs")))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
