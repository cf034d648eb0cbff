"""Write down what a rebuild depends on, and what came out (rule lock)."""

from minilab.files import write_json
from minilab.records.lock import lock
from minilab.script import run


def main(job):
    params = job.params
    write_json(
        job.output.lock,
        lock(params.config, list(job.input.sources), params.made, list(job.input.graphs), list(job.input.autotunes)),
    )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
