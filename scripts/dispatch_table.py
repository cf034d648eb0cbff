"""Write the table by which `minikernel.softmax` chooses a kernel on a GPU (rule dispatch_table)."""

from minikernel.ops.dispatch.dispatch import write_table
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    write_table(job.output.table, read_artefact(job.input.tuning, job.config))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
