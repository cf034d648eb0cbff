"""Write stage 27's report (rule report_27)."""

from minikernel.report.loss.stage_27 import report_27
from minikernel.report.loss.views import some
from minilab.records.store import read_artefacts
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    language = job.params.language
    losses = read_artefacts(some(job.input.losses, job.output.report), job.config)
    verdicts = read_artefacts(job.input.verdicts, job.config)
    write_linked(job.output.report, report_27(losses, verdicts, language), language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
