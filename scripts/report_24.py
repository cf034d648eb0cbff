"""Write stage 24's report (rule report_24)."""

from minikernel.report.contest_report import explanations
from minikernel.report.stage_24 import report_24
from minilab.files import read_json, write_text
from minilab.script import run


def main(job):
    text = report_24(
        training=read_json(job.input.training),
        port=read_json(job.input.port),
        equivalence=read_json(job.input.equivalence),
        benches=[read_json(path) for path in job.input.bench],
        autotune=read_json(job.input.autotune[0]) if job.input.autotune else None,
        swaps=[read_json(path) for path in job.input.swap],
        proofs=[read_json(path) for path in job.input.proofs],
        contest=read_json(job.input.contest[0]) if job.input.contest else None,
        explained=explanations(job.params.language),
        language=job.params.language,
    )
    write_text(job.output.report, text)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
