"""Gather the rows of all kernels of one device into bench.json (rule bench)."""

from minilab.config import check_schema, read_schema
from minilab.files import read_json, write_json
from minilab.script import run


def main(job):
    jobs = [read_json(path) for path in job.input.jobs]
    newest = max((measured["provenance"] for measured in jobs), key=lambda made: made["date"])
    bench = {
        # the device and its state are those of the last job; sources and parameters are each kernel's own
        "provenance": {**newest, "sources": {}, "params": {}},
        "kernels": {measured["rows"][0]["kernel"]: measured["provenance"] for measured in jobs},
        "rows": [row for measured in jobs for row in measured["rows"]],
    }
    check_schema(bench, read_schema(job.input.schema), job.output.bench)
    write_json(job.output.bench, bench)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
