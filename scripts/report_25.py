"""Write stage 25's report and manifest (rule report_25)."""

import os
from pathlib import Path

from minicompile.report.safety_report import safety_entries, safety_section
from minicompile.report.stage_25 import manifest_25, report_25
from minilab.files import read_json, write_json, write_text
from minilab.script import run


def main(job):
    home = Path(job.output.report).parent
    captures, profiles = (
        [(os.path.relpath(Path(path).parent, home), read_json(path)) for path in paths]
        for paths in (job.input.captures, job.input.profiles)
    )
    distributed, health = ([read_json(path) for path in paths] for paths in (job.input.distributed, job.input.health))
    trainings = [(os.path.relpath(Path(path).parent, home), read_json(path)) for path in job.input.trainings]
    compared, language = [read_json(path) for path in job.input.compared], job.params.language
    safety = safety_section(health, trainings, language)
    write_text(job.output.report, report_25(captures, profiles, distributed, safety, compared, language))
    files = {"report": "25/REPORT.md", "survey": "25/DISTRIBUTED.md"}
    manifest = manifest_25(job.params.seed, captures, [profile for _, profile in profiles], files)
    write_json(job.output.manifest, {**manifest, **safety_entries(health, trainings)})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
