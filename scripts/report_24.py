"""Write stage 24's report and the contest's page (rule report_24)."""

from minikernel.report.contest_report import explanations
from minikernel.report.stage_24 import Artefacts, contest_24, report_24
from minilab.records.store import read_artefact, read_artefacts
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    language = job.params.language
    made = Artefacts(
        training=read_artefact(job.input.training, job.config),
        port=read_artefact(job.input.port, job.config),
        equivalence=read_artefact(job.input.equivalence, job.config),
        benches=read_artefacts(job.input.bench, job.config),
        ceilings=read_artefacts(job.input.ceilings, job.config),
        allocations=read_artefacts(job.input.allocation, job.config),
        autotune=read_artefact(job.input.autotune[0], job.config) if job.input.autotune else None,
        swaps=read_artefacts(job.input.swap, job.config),
        proofs=read_artefacts(job.input.proofs, job.config),
        contest=read_artefact(job.input.contest[0], job.config) if job.input.contest else None,
        heads=read_artefact(job.input.head[0], job.config) if job.input.head else None,
        explained=explanations(language),
    )
    for path, page in ((job.output.report, report_24), (job.output.contest, contest_24)):
        write_linked(path, page(made, language), language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
