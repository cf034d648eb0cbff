"""Conclude from a watched compile what became of each node, all of it linked (rule capture)."""

import logging

from minicompile.lowering.capture import as_capture
from minicompile.watching.watched import checked
from minilab.records.provenance import concluded
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    watched = checked(read_artefact(job.input.watched, job.config), job.input.watched)
    made, name = as_capture(watched), watched["model"]["name"]
    made["provenance"] = concluded(job.input.lib, watched["provenance"], job.input.watched)
    for graph in made["graphs"]:
        counts = {what: f"{pair[0]}/{pair[1]}" for what, pair in graph["coverage"].items() if what != "missing"}
        log.info("%s %s: %s", name, graph["id"], ", ".join(f"{what} {count}" for what, count in counts.items()))
    for warning in made["warnings"]:
        log.warning("%s: %s", warning.get("what", name), warning.get("reason", warning["code"]))
    write_artefact(job.output.capture, made, job.input.schema)
    log.info("%d links between its lines", len(made["links"]))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
