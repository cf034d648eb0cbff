"""Draw matrix-vector products beside cuBLAS's and write their page (rule gemv_report)."""

from minicompile.report.gemv_report import draw, report
from minilab.files import replacing
from minilab.records.store import read_artefact
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    products = read_artefact(job.input.gemv, job.config)
    with replacing(job.output.picture) as picture:
        draw(products, picture, job.params.language)
    write_linked(job.output.report, report(products, job.params.language), job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
