"""Publish this run's measurements and pictures as a record (rule record)."""

from minilab.records.publish import publish
from minilab.records.sources.closure import closure
from minilab.script import run


def main(job):
    for device, (artefacts, pages) in job.params.devices.items():
        drawn = {page: (closure(script), shows) for page, (script, shows) in pages.items()}
        publish(device, artefacts, drawn, job.params.recorded, job.params.sign)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
