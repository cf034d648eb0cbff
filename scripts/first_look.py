"""Show what the records hold, on one page (rule first_look)."""

from pathlib import Path

from minicompile.report.first_look.page import write_first_look
from minicompile.report.first_look.records import recorded
from minilab.script import run


def main(job):
    config = job.params.config
    write_first_look(recorded(config), config, Path(job.output.page))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
