# Results follow from content and not from clocks, in every rule; included when all of them are there.
# A job runs again when the bytes of its sources are others, or what the user's code opened (minilab.records.sources.content), or
# a parameter; in which order a mapping's keys stand, and when a file was touched, decides nothing. The profiles leave
# Snakemake's own trigger `code` out, which goes by the time of the script.

from functools import wraps

from minilab.records.sources.content import content
from minilab.records.params import in_order
from snakemake.dag import DAG


def by_content(wildcards, **given):
    """A params function. Of one that takes `input` by its name, Snakemake does not compare the value."""
    return content(given["input"], given["output"])


def ordered(param):
    """A parameter, or a params function, with keys in order: Snakemake compares texts."""
    if not callable(param):
        return in_order(param)
    return wraps(param)(lambda *arguments, **named: in_order(param(*arguments, **named)))


for one in workflow.rules:
    if one.script and one.output:
        for name, param in list(one.params.items()):
            setattr(one.params, name, ordered(param))
        one.set_params(content=by_content)


class WithoutAncient:
    """What depends on each job, but for what takes of it nothing that is not `ancient`."""

    def __init__(self, depending):
        self.depending = depending

    def __getitem__(self, job):
        return {after: files for after, files in self.depending[job].items() if not all(f.is_ancient for f in files)}


def looking_behind_ancient(bfs):
    """Snakemake 9.27 asks no job for reasons of its own that depends on one that runs, if only by an `ancient` input;
    by which it does not run either. So what is timed would stay as it is where the training changes besides.
    findings/snakemake_ancient_hides.sh shows it.
    """

    @wraps(bfs)
    def walked(dag, direction, *jobs, **more):
        return bfs(dag, WithoutAncient(direction) if direction is dag.depending else direction, *jobs, **more)

    return walked


if not hasattr(DAG.bfs, "__wrapped__"):
    DAG.bfs = looking_behind_ancient(DAG.bfs)
