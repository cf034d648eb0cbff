"""Snakemake's summary of a workflow, read into jobs.

The summary (`snakemake --detailed-summary`) has one line for each output; a job is the outputs of one rule that share
their wildcards.
"""

import csv
import io
import re
from dataclasses import dataclass, field

WILDCARD = re.compile(r"\{(\w+)[^}]*\}")
NOTHING = "-"  # how the summary writes that it knows none


@dataclass(frozen=True)
class Rule:
    """A rule as its Snakefile has it.

    Attributes:
        stage: stem of the .smk file that it stands in.
        outputs, log, benchmark: patterns with wildcards, without their constraints.
        captions: output pattern -> file of the caption, for those that Snakemake's report shows.
        inputs: its inputs that are written as paths, without their constraints; functions are left out.
        needs_gpu: whether it runs on GPUs only and none is here.
    """

    name: str
    docstring: str
    stage: str
    script: str | None
    outputs: tuple[str, ...]
    log: str | None
    benchmark: str | None
    captions: dict[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    needs_gpu: bool = False


@dataclass(frozen=True)
class Output:
    """A line of the summary; `status` is Snakemake's own, such as `ok`, `missing`, `params changed`."""

    path: str
    rule: str
    inputs: tuple[str, ...]
    status: str
    pending: bool


@dataclass(frozen=True)
class Job:
    """One run of a rule, for one choice of its wildcards."""

    rule: Rule
    wildcards: dict[str, str]
    outputs: tuple[Output, ...]

    @property
    def inputs(self) -> list[str]:
        """The inputs of its outputs, in Snakemake's order; empty where it was never run."""
        return list(dict.fromkeys(path for output in self.outputs for path in output.inputs))

    @property
    def benchmark(self) -> str | None:
        return self.rule.benchmark and self.rule.benchmark.format(**self.wildcards)


def read_summary(text: str) -> list[Output]:
    """Read the lines of `snakemake --detailed-summary`, in its order: targets first, then what they need."""
    rows = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        Output(
            path=row["output_file"],
            rule=row["rule"],
            inputs=tuple(row["input-file(s)"].split(",")) if row["input-file(s)"] != NOTHING else (),
            status=row["status"],
            pending=row["plan"] == "update pending",
        )
        for row in rows
    ]


def match(pattern: str, path: str) -> dict[str, str] | None:
    """Find the wildcards with which an output pattern gives a path; None where it cannot. Values hold no slash."""
    literals, names = WILDCARD.split(pattern)[0::2], WILDCARD.findall(pattern)
    expression, seen = re.escape(literals[0]), set()
    for name, literal in zip(names, literals[1:], strict=True):
        expression += (rf"(?P={name})" if name in seen else rf"(?P<{name}>[^/]+)") + re.escape(literal)
        seen.add(name)
    found = re.fullmatch(expression, path)
    return found.groupdict() if found else None


def wildcards_of(rule: Rule, path: str) -> dict[str, str] | None:
    """Find the wildcards of the first of a rule's output patterns that gives a path; None where none does."""
    return next((found for pattern in rule.outputs if (found := match(pattern, path)) is not None), None)


def jobs_of(summary: list[Output], rules: list[Rule]) -> list[Job]:
    """Group the outputs of a summary into jobs, in the order in which they are made."""
    by_name = {rule.name: rule for rule in rules}
    grouped: dict[tuple, list[Output]] = {}
    wildcards: dict[tuple, dict[str, str]] = {}
    for output in summary:
        rule = by_name[output.rule]
        found = wildcards_of(rule, output.path) or {}
        key = (rule.name, *sorted(found.items()))
        grouped.setdefault(key, []).append(output)
        wildcards[key] = found
    return [Job(by_name[key[0]], wildcards[key], tuple(outputs)) for key, outputs in reversed(grouped.items())]
