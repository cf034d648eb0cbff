"""What the rules ask of src/, in Snakemake's terms: its configuration read, its errors raised, its rules described.

What needs no Snakemake is in minilab.directives and minilab.plan. Plain Python, no rules.
"""

import os
import sys
from functools import wraps
from pathlib import Path

from minicompile.knobs import KNOBS
from minikernel.exercise.exercises import chosen, exercises, graded, has_a_roofline
from minikernel.exercise.grading.submissions import digest, students
from minikernel.judge.entry import check_entries, is_users
from minikernel.measure.contest.standards import OURS
from minilab import LabError, directives
from minilab.config.check import check_config, read_schema
from minilab.config.options import read_options, spelled_alike
from minilab.config.places import Places
from minilab.config.resources import growing, minutes
from minilab.device import cpu_device, devices_here, is_cpu
from minilab.directives import any_of, environment, gpus, none_of, timing
from minilab.plan import SIMULATED, SIMULATED_FOR, TRITON_ONLY, Plan, measured_devices
from minilab.records.artefact import RECORDED, TABLE, artefact, recorded_artefact
from minilab.records.sources.closure import closure
from minilab.records.current import refuse_results_of_another_configuration
from minilab.records.params import TUNED_KERNEL, in_order
from minilab.surroundings import check_folder, check_surroundings, speak_utf8
from minilab.yaml_files import read_settings
from snakemake.io import get_flag_value, is_flagged, strip_wildcard_constraints
from snakemake.utils import update_config

PROVEN = "results/24/equivalence.json"  # no kernel is timed for a port that is not proven; proofs run beside training


def refusing(function):
    """The function, its refusals as errors that Snakemake prints in one sentence."""

    @wraps(function)
    def refused(*arguments, **named):
        try:
            return function(*arguments, **named)
        except LabError as error:
            raise WorkflowError(str(error)) from None

    return refused


@refusing
def readable(path):
    """The path of a configuration that can be read: Snakemake would take the last of two keys, and not other encodings."""
    check_folder(Path.cwd(), str(workflow.current_basedir))
    if not workflow.config_settings.replace_workflow_config:
        read_settings(path)
    return path


@refusing
def planned(config, workflow):
    """What this run builds, and the model that `--config model=NAME` names for what_if, or "".

    The configuration is held against the schema and against what is there; the section `model` stays what the files say.
    """
    check_surroundings(Path.cwd())
    speak_utf8()
    given, schema = workflow.config_settings, read_schema("schemas/config.schema.yaml")
    over = given.configfiles  # by --configfile, over the workflow's own or in its place
    files = [*([] if given.replace_workflow_config else set(workflow.configfiles) - set(over)), *over]
    for file in (file for file in files if Path(file).suffix in (".yaml", ".yml")):
        read_settings(file)
    options = read_options(given.config_args, schema)
    places = Places(files, options.by_place(sys.argv))
    if options.model is not None and not isinstance(config["model"], dict):
        del config["model"]
        config.update(places.in_files("model"))
    update_config(config, options.settings)
    check_config(config, schema, places)
    update_config(config, spelled_alike(config, schema, schema))
    check_entries(config["kernels"], places)
    refuse_results_of_another_configuration(config)
    return Plan(config, measured_devices(config, elsewhere=workflow.non_local_exec)), options.model or ""


def code(script):
    """An input function: a script's modules, their data, templates and words, so that an edit of one runs it anew."""
    return lambda wildcards: closure(script)


def sources(name):
    """An input function: the files that an artefact of the table depends on."""
    return lambda wildcards: artefact(name).sources(config, wildcards)


def measuring(name):
    """A params function: the configuration that an artefact of the table depends on."""
    return lambda wildcards: in_order(artefact(name).params(config, wildcards))


def asked(question):
    """An input or params function: what the plan answers of the artefact that is restored, and its wildcards."""
    return lambda wildcards: refusing(question)(recorded_artefact(dict(wildcards.items())), wildcards)


def of_minigpt(path):
    """An input function: a file that only the models made of the trained MiniGPT need."""
    return lambda wildcards: path if plan.made_of_minigpt(wildcards.model) else []


def limits(compiles):
    """A params function: the limits of a job that runs a model of the user's, which compiles it so often."""
    return lambda wildcards: directives.limits_of_model(config, compiles, wildcards)


def named(option, advice, pattern="{}"):
    """An input function: the file that a key of --config names, or one sentence that says to name it."""
    return refusing(directives.named(config, option, advice, pattern))


def shown(path, stage, caption):
    """An output that `snakemake --report` shows: its stage as the category, caption and labels in config's language."""
    return report(path, **directives.report_entry(path, stage, caption, config["language"]))


def described_rule(rule):
    """What the front door shows of a rule, its stage (the .smk file it stands in) and its captions among it."""
    outputs = [strip_wildcard_constraints(pattern) for pattern in rule.output]
    folder = Path(rule.snakefile).parent
    return {
        "name": rule.name,
        "docstring": directives.docstring_in(config["language"], rule.name, rule.docstring),
        "stage": Path(rule.snakefile).stem,
        "script": rule.script and os.path.relpath(folder / rule.script),
        "outputs": sorted(outputs),
        "log": strip_wildcard_constraints(rule.log[0]) if rule.log else None,
        "benchmark": rule.benchmark and strip_wildcard_constraints(rule.benchmark),
        "captions": {
            output: os.path.relpath(folder / get_flag_value(pattern, "report").caption)
            for output, pattern in zip(outputs, rule.output, strict=True)
            if is_flagged(pattern, "report")
        },
        # sorted, as outputs are: the order of a configuration's keys, which some follow, makes no other graph
        "inputs": sorted(strip_wildcard_constraints(path) for path in rule.input if isinstance(path, str)),
        "needs_gpu": rule.wildcard_constraints.get("device") == directives.NOTHING,
    }


def described(workflow):
    """All rules but `all`, in the workflow's order, as the front door's page takes them (minilab.site.account.Rule)."""
    return [described_rule(rule) for rule in workflow.rules if rule.name != "all"]
