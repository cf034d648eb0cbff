"""Draw a profile's kernels on the roofline and interpret its figures (rule profile_report)."""

from minicompile.report.profile_report import report
from minicompile.report.profile_roofline import draw
from minilab.files import replacing
from minilab.records.store import read_artefact
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    profile = read_artefact(job.input.profile, job.config)
    with replacing(job.output.picture) as picture:
        draw(profile, picture, job.params.language)
    write_linked(job.output.report, report(profile, job.params.language), job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
