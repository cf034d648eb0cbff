"""Write stage 24's report (rule report_24)."""

from minikernel.report.contest_report import explanations
from minikernel.report.stage_24 import report_24
from minilab.files import write_text
from minilab.records.store import read_artefact, read_artefacts
from minilab.script import run


def main(job):
    text = report_24(
        training=read_artefact(job.input.training, job.config),
        port=read_artefact(job.input.port, job.config),
        equivalence=read_artefact(job.input.equivalence, job.config),
        benches=read_artefacts(job.input.bench, job.config),
        autotune=read_artefact(job.input.autotune[0], job.config) if job.input.autotune else None,
        swaps=read_artefacts(job.input.swap, job.config),
        proofs=read_artefacts(job.input.proofs, job.config),
        contest=read_artefact(job.input.contest[0], job.config) if job.input.contest else None,
        heads=read_artefact(job.input.head[0], job.config) if job.input.head else None,
        explained=explanations(job.params.language),
        language=job.params.language,
    )
    write_text(job.output.report, text)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
