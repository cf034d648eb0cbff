"""Write stage 26's report (rule report_26)."""

from minikernel.report.model.stage_26 import report_26
from minikernel.report.model.views import the_only
from minilab.records.store import read_artefact
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    language = job.params.language
    made = read_artefact(the_only(job.input.model, job.output.report), job.config)
    training, ceilings = (
        next((read_artefact(path, job.config) for path in paths), None)
        for paths in (job.input.training, job.input.ceilings)
    )
    write_linked(job.output.report, report_26(made, language, training, ceilings), language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
