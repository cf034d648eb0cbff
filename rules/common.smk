"""What the rules ask of src/, in Snakemake's terms: refusals as its errors, paths by wildcards. Plain Python, no rules."""

import os
import re
from functools import wraps
from itertools import chain
from pathlib import Path

from minicompile.knobs import KNOBS
from minikernel.exercise.exercises import chosen, exercises, graded, has_a_roofline
from minikernel.exercise.grading.submissions import digest, students
from minikernel.judge.entry import check_entries, is_users
from minikernel.measure.contest.standards import OURS
from minilab import LabError
from minilab.config.check import check_config, read_schema
from minilab.device import cpu_device, devices_here, is_cpu
from minilab.plan import SIMULATED, SIMULATED_FOR, TRITON_ONLY, Plan, measured_devices
from minilab.records.artefact import RECORDED, TABLE, artefact, recorded_artefact
from minilab.records.closure import closure
from minilab.records.params import TUNED_KERNEL, in_order, kind_of
from minilab.records.current import refuse_results_of_another_configuration
from minilab.config.resources import growing, minutes
from minilab.surroundings import check_surroundings, speak_utf8
from minilab.pages.translations import Translations
from minilab.yaml_files import as_yaml_types, read_yaml
from snakemake.common.configfile import load_configfile
from snakemake.io import get_flag_value, is_flagged, strip_wildcard_constraints
from snakemake.utils import update_config

PROVEN = "results/24/equivalence.json"  # no kernel is timed for a port that is not proven; proofs run beside training
NO_DEVICE = "(?!)"


def refusing(function):
    """The function, its refusals as errors that Snakemake prints in one sentence."""

    @wraps(function)
    def refused(*arguments, **named):
        try:
            return function(*arguments, **named)
        except LabError as error:
            raise WorkflowError(str(error)) from None

    return refused


def model_named(config, workflow):
    """The model that `--config model=NAME` names for what_if, or ""; the section `model` stays what the files say."""
    name = config["model"]
    if not isinstance(name, str):
        return ""
    del config["model"]
    given = workflow.config_settings.configfiles  # by --configfile, over the workflow's own
    for file in [*(file for file in workflow.configfiles if file not in given), *given]:
        update_config(config, {key: value for key, value in load_configfile(file).items() if key == "model"})
    return name


@refusing
def readable(path):
    """The path of a configuration that can be read: Snakemake would take the last of two keys, and not other encodings."""
    read_yaml(path)
    return path


@refusing
def planned(config, workflow):
    """What this run builds, once its configuration has been held against the schema and against what is there."""
    check_surroundings(Path.cwd())
    speak_utf8()
    for file in workflow.configfiles:
        if Path(file).suffix in (".yaml", ".yml"):
            read_yaml(file)
    update_config(config, as_yaml_types(workflow.config_settings.config or {}))
    check_config(config, read_schema("schemas/config.schema.yaml"))
    check_entries(config["kernels"])
    refuse_results_of_another_configuration(config)
    return Plan(config, measured_devices(config, elsewhere=workflow.non_local_exec))


def any_of(names):
    """A wildcard pattern that matches exactly these names, and nothing where there are none."""
    return "|".join(map(re.escape, names)) or NO_DEVICE


def none_of(devices):
    """A wildcard pattern that matches every slug but these."""
    return f"(?!(?:{any_of(devices)})/)[a-z0-9][a-z0-9-]*"


def code(script):
    """An input function: a script's modules, their data, templates and words, so that an edit of one runs it anew."""
    return lambda wildcards: closure(script)


def sources(name):
    """An input function: the files that an artefact of the table depends on."""
    return lambda wildcards: artefact(name).sources(config, wildcards)


def sources_by_kernel(wildcards):
    """The files that the bench of each kernel of a CPU depends on."""
    kernels = plan.timed_kernels(wildcards.device)
    return {kernel: artefact("bench").sources(config, {**wildcards, "kernel": kernel}) for kernel in kernels}


def measuring(name):
    """A params function: the configuration that an artefact of the table depends on."""
    return lambda wildcards: in_order(artefact(name).params(config, wildcards))


def asked(question):
    """An input or params function: what the plan answers of the artefact that is restored, and its wildcards."""
    return lambda wildcards: refusing(question)(recorded_artefact(wildcards.file), wildcards)


def gpus(wildcards):
    """How many GPUs a job on the wildcard's device needs."""
    return 0 if is_cpu(wildcards.device) or wildcards.device == SIMULATED else 1


def environment(device):
    """The pinned environment of a job that runs on a device."""
    return "../envs/cpu.yaml" if is_cpu(device) or device == SIMULATED else "../envs/gpu.yaml"


def kind_of_target(device):
    """What is compiled for on a device, as a capture calls it: cpu, cuda or simulated."""
    return "simulated" if device == SIMULATED else kind_of(device)


def time_limit(stage, kernel):
    """Seconds that a user's kernel is given in a stage, proof or bench; none for the lab's own, which are trusted."""
    return config[stage]["time_limit_seconds"] if kernel in users_kernels else None


def users_shapes(device, kernel):
    """The shapes at which a user's kernel will be timed on a device; none for the lab's own."""
    return config["bench"][kind_of(device)]["shapes"] if kernel in users_kernels else []


def limits(compiles):
    """A params function: the limits of a job that runs a model of the user's, which compiles it so often; none of others."""

    def limited(wildcards):
        entry, seconds = config["models"].get(wildcards.model), config["compile"]["time_limit_seconds"]
        if entry is None:
            return {}
        name = wildcards.model
        subject = f"model {name} ({entry['source']}: {entry['factory']}) on {wildcards.device}"
        seconds = compiles * seconds if seconds else None
        return {"name": name, "subject": subject, "seconds": seconds, "knob": "compile.time_limit_seconds"}

    return limited


def limits_of_swapped(wildcards):
    """The limits of the job that swaps in a kernel of the user's; none of the lab's own."""
    name = config["swap_kernel"]
    subject = f"kernel {name} ({config['kernels'][name]['source']}) on {wildcards.device}"
    seconds = time_limit("proof", name)
    return {"name": name, "subject": subject, "seconds": seconds, "knob": "proof.time_limit_seconds"} if seconds else {}


def of_minigpt(path):
    """An input function: a file that only the models made of the trained MiniGPT need."""
    return lambda wildcards: path if plan.made_of_minigpt(wildcards.model) else []


def marked_rows(wildcards):
    """The marks of each student of the class."""
    return [f"results/grade/marked/{student}.json" for student in refusing(students)(str(config["class"]))]


def named(option, advice, pattern="{}"):
    """An input function: the file that a key of --config names, or one sentence that says to name it."""

    def given(wildcards):
        value = config.get(option)
        if not value:
            raise WorkflowError(advice)
        return value if value.endswith(".json") else pattern.format(value)

    return given


def what_if_pages(advice):
    """An input function: the pages of the model and knob that --config names, for each device here that it acts on."""

    def pages(wildcards):
        knob, model = KNOBS.get(config["knob"]), named_model
        if knob is None or model not in plan.captured:
            raise WorkflowError(advice)
        devices = [
            device
            for device in [*plan.measured, SIMULATED]
            if kind_of_target(device) in knob.targets and plan.has_capture(model, device)
        ]
        if not devices:
            raise WorkflowError(
                f"The knob {knob.name} acts on {', '.join(knob.targets)}, and {model} is compiled for none of them here."
            )
        return [f"results/25/{model}/{device}/what_if/{knob.name}.html" for device in devices]

    return pages


def shown(path, stage, caption):
    """An output that `snakemake --report` shows: its stage as the category, caption and labels in config's language."""
    figures = Translations("minilab", "figures", config["language"])
    labels = {figures("label.what"): figures(caption)}
    return report(
        path,
        caption=f"../report/{config['language']}/{caption}.rst",
        category=Translations("minilab", "stages", config["language"])(f"{stage}.title"),
        labels=labels | {figures(f"label.{name}"): f"{{{name}}}" for name in re.findall(r"{(\w+)}", path)},
    )


def described_rule(rule):
    """What the front door shows of a rule, its stage (the .smk file it stands in) and its captions among it."""
    outputs = [strip_wildcard_constraints(pattern) for pattern in rule.output]
    folder = Path(rule.snakefile).parent
    in_english = config["language"] == "en"
    docstring = rule.docstring if in_english else Translations("minilab", "rules", config["language"])(rule.name)
    return {
        "name": rule.name,
        "docstring": " ".join(docstring.split()),
        "stage": Path(rule.snakefile).stem,
        "script": rule.script and os.path.relpath(folder / rule.script),
        "outputs": outputs,
        "log": strip_wildcard_constraints(rule.log[0]) if rule.log else None,
        "benchmark": rule.benchmark and strip_wildcard_constraints(rule.benchmark),
        "captions": {
            output: os.path.relpath(folder / get_flag_value(pattern, "report").caption)
            for output, pattern in zip(outputs, rule.output, strict=True)
            if is_flagged(pattern, "report")
        },
        "inputs": [strip_wildcard_constraints(path) for path in rule.input if isinstance(path, str)],
        "needs_gpu": rule.wildcard_constraints.get("device") == NO_DEVICE,
    }


def described(workflow):
    """All rules but `all`, in the workflow's order, as the front door's page takes them (minilab.site.account.Rule)."""
    return [described_rule(rule) for rule in workflow.rules if rule.name != "all"]
