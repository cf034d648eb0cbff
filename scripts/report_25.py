"""Write stage 25's report and manifest (rule report_25)."""

import os
from pathlib import Path

from minicompile.report.safety_report import safety_entries, safety_section
from minicompile.report.stage_25 import manifest_25, report_25
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, read_artefacts, write_artefact
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    home = Path(job.output.report).parent
    captures, profiles, trainings = (
        [(os.path.relpath(Path(path).parent, home), read_artefact(path, job.config)) for path in paths]
        for paths in (job.input.captures, job.input.profiles, job.input.trainings)
    )
    distributed, health, compared = (
        read_artefacts(paths, job.config) for paths in (job.input.distributed, job.input.health, job.input.compared)
    )
    language = job.params.language
    safety = safety_section(health, trainings, language)
    page = report_25(captures, profiles, distributed, safety, compared, language, health)
    write_linked(job.output.report, page, language)
    files = {"report": "25/REPORT.md", "survey": "25/DISTRIBUTED.md"}
    manifest = manifest_25(job.params.seed, captures, [profile for _, profile in profiles], files)
    made = provenance(job.input.lib, {"seed": job.params.seed})
    write_artefact(job.output.manifest, {**manifest, **safety_entries(health, trainings), "provenance": made})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
