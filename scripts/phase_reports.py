"""Write the pages that close phases 24 and 25 (rule phase_reports)."""

import os
from pathlib import Path

from minicompile.report.phase_reports import checks_24, checks_25, phase_report, words
from minilab.records.store import read_artefacts
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    language = job.params.language
    text = words(language)

    def beside(output, files):
        home = Path(output).parent
        return {text(name): os.path.relpath(path, home) for name, path in files.items()}

    first, second = job.output.phase_24, job.output.phase_25
    manifests = read_artefacts([job.input.manifest_24, job.input.manifest_25], job.config)
    training, port = read_artefacts([job.input.training, job.input.port], job.config)
    checks = checks_24(manifests[0], training, port, language)
    pictures = beside(first, {"24.picture": job.input.roofline})
    files = beside(first, {"files.report": job.input.report_24, "files.manifest": job.input.manifest_24})
    page = phase_report(24, text("24.title"), checks, pictures, files, language)
    write_linked(first, page, language)

    checks = checks_25(manifests[1], read_artefacts(job.input.distributed, job.config), language)
    home = Path(job.input.manifest_25).parent
    files = {"files.report": home / "REPORT.md", "files.survey": home / "DISTRIBUTED.md"}
    files = beside(second, files | {"files.manifest": job.input.manifest_25})
    pictures = beside(second, {"25.picture": job.input.survey_picture})
    page = phase_report(25, text("25.title"), checks, pictures, files, language)
    write_linked(second, page, language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
