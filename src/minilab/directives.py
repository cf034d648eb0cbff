"""What stands in the directives of rules and follows from the configuration, the plan and a job's wildcards alone.

Patterns of wildcards, GPUs, environments, limits of a user's code, captions. `rules/common.smk` and the rules call it;
nothing here knows Snakemake: wildcards are whatever maps their names to values.
"""

import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from minilab.device import is_cpu
from minilab.errors import LabError
from minilab.pages.translations import Translations
from minilab.plan import SIMULATED, Plan
from minilab.records.artefact import artefact, is_users_kernel
from minilab.records.params import Config, Wildcards, kind_of

NOTHING = "(?!)"  # a pattern that no name matches

QUIET, BESIDE = 2, 4  # cores that timing a GPU needs, and those that it leaves to other jobs


def any_of(names: Iterable[str]) -> str:
    """A wildcard pattern that matches exactly these names, and nothing where there are none."""
    return "|".join(map(re.escape, names)) or NOTHING


def none_of(devices: Iterable[str]) -> str:
    """A wildcard pattern that matches every slug but these."""
    return f"(?!(?:{any_of(devices)})/)[a-z0-9][a-z0-9-]*"


def gpus(wildcards: Wildcards) -> int:
    """How many GPUs a job on the wildcard's device needs."""
    device = wildcards["device"]
    return 0 if is_cpu(device) or device == SIMULATED else 1


def timing(cores: int, limit: Any) -> tuple[Callable[[Wildcards], int], Callable[[Wildcards], int]]:
    """How many cores, and how many GPUs, a job takes that times a device by the device's own clock.

    On a CPU all cores, so that nothing runs beside it. A GPU needs two quiet ones: where there are six or more,
    `BESIDE` are left to training, captures and proofs, and the job takes all GPUs that may be in use, so that none of
    those that share a GPU comes beside it.

    Args:
        cores: that there are.
        limit: how many GPUs may be in use at a time; None where nobody says so, or this machine runs no jobs.
    """
    limit = getattr(limit, "value", limit)  # Snakemake's own kind of number

    def shares(wildcards: Wildcards) -> bool:
        return gpus(wildcards) > 0 and bool(limit) and cores >= QUIET + BESIDE

    return (
        lambda wildcards: cores - BESIDE if shares(wildcards) else cores,
        lambda wildcards: int(limit) if shares(wildcards) else gpus(wildcards),
    )


def environment(device: str) -> str:
    """The pinned environment of a job that runs on a device, as seen from the rules' folder."""
    return "../envs/cpu.yaml" if is_cpu(device) or device == SIMULATED else "../envs/gpu.yaml"


def kind_of_target(device: str) -> str:
    """What is compiled for on a device, as a capture calls it: cpu, cuda or simulated."""
    return "simulated" if device == SIMULATED else kind_of(device)


def sources_by_kernel(config: Config, kernels: Iterable[str], wildcards: Wildcards) -> dict[str, list[str]]:
    """The files that the bench of each of these kernels depends on."""
    return {kernel: artefact("bench").sources(config, {**wildcards, "kernel": kernel}) for kernel in kernels}


def time_limit(config: Config, stage: str, kernel: str) -> float | None:
    """Seconds that a user's kernel is given in a stage, proof or bench; none for the lab's own, which are trusted."""
    return config[stage]["time_limit_seconds"] if _is_users(config, kernel) else None


def users_shapes(config: Config, device: str, kernel: str) -> list[list[int]]:
    """The shapes at which a user's kernel will be timed on a device; none for the lab's own."""
    return config["bench"][kind_of(device)]["shapes"] if _is_users(config, kernel) else []


def _is_users(config: Config, kernel: str) -> bool:
    entry = config["kernels"].get(kernel)
    return entry is not None and is_users_kernel(kernel, entry)


def limits_of_model(config: Config, compiles: int, wildcards: Wildcards) -> dict[str, Any]:
    """The limits of a job that runs a model of the user's, which compiles it so often; none for the lab's own."""
    name, knob = wildcards["model"], "compile.time_limit_seconds"
    entry, seconds = config["models"].get(name), config["compile"]["time_limit_seconds"]
    if entry is None:
        return {}
    subject = f"model {name} ({entry['source']}: {entry['factory']}) on {wildcards['device']}"
    return {"name": name, "subject": subject, "seconds": compiles * seconds if seconds else None, "knob": knob}


def limits_of_swapped(config: Config, wildcards: Wildcards) -> dict[str, Any]:
    """The limits of the job that swaps in a kernel of the user's; none for the lab's own."""
    name = config["swap_kernel"]
    subject = f"kernel {name} ({config['kernels'][name]['source']}) on {wildcards['device']}"
    seconds = time_limit(config, "proof", name)
    return {"name": name, "subject": subject, "seconds": seconds, "knob": "proof.time_limit_seconds"} if seconds else {}


def named(config: Config, option: str, advice: str, pattern: str = "{}") -> Callable[[Wildcards], str]:
    """An input function: the file that a key of --config names, by its path or by what a pattern needs.

    It raises `advice` as a LabError where the key is not given.
    """

    def given(wildcards: Wildcards) -> str:
        value = config.get(option)
        if not value:
            raise LabError(advice)
        return value if value.endswith(".json") else pattern.format(value)

    return given


def what_if_pages(plan: Plan, model: str, knob: Any, advice: str) -> list[str]:
    """The pages of a what-if, one for each device here that its knob acts on.

    Args:
        plan: of this run.
        model: its name.
        knob: an entry of minicompile's table of knobs, or None where none is named.
        advice: the sentence for a model or a knob that is not there.

    Raises:
        LabError: there is no such model or knob, or the model is compiled for none of the knob's targets.
    """
    if knob is None or model not in plan.captured:
        raise LabError(advice)
    devices = [
        device
        for device in [*plan.measured, SIMULATED]
        if kind_of_target(device) in knob.targets and plan.has_capture(model, device)
    ]
    if not devices:
        raise LabError(
            f"The knob {knob.name} acts on {', '.join(knob.targets)}, and {model} is compiled for none of them here."
        )
    return [f"results/25/{model}/{device}/what_if/{knob.name}.html" for device in devices]


def report_entry(path: str, stage: str, caption: str, language: str) -> dict[str, Any]:
    """How an output stands in Snakemake's report: its caption's file, its stage as the category, its labels.

    Args:
        path: its pattern; each wildcard becomes a label, whose value is filled in with the path's.
        stage: stem of the .smk file that the rule stands in.
        caption: stem of the caption's file, and key of what the output is called.
        language: of caption, category and labels.
    """
    words = Translations("minilab", "figures", language)
    labels = {words("label.what"): words(caption)}
    return {
        "caption": f"../report/{language}/{caption}.rst",
        "category": Translations("minilab", "stages", language)(f"{stage}.title"),
        "labels": labels | {words(f"label.{name}"): f"{{{name}}}" for name in re.findall(r"{(\w+)}", path)},
    }


def docstring_in(language: str, name: str, english: str) -> str:
    """A rule's docstring on one line, in a language: its own in English, translated in another."""
    return " ".join((english if language == "en" else Translations("minilab", "rules", language)(name)).split())


def say_why_groups_fail(group_job: type, say: Callable[[str], None]) -> None:
    """Have groups of jobs say the executor's words on their failure, such as SLURM's refusal.

    Snakemake 9.27 drops them for a group, and SLURM's plugin 2.8 asks a group for its rule as it reports that it could
    not submit it, which a group does not have: nothing would be reported.

    Args:
        group_job: Snakemake's class of them.
        say: writes a line on the terminal and into Snakemake's log.
    """
    groups: Any = group_job
    log_error = groups.log_error

    def log_why(group: Any, msg: str | None = None, **more: Any) -> None:
        if msg:
            words = msg.partition("\n    sbatch call")[0]  # the call is longer than a screen
            say(f"Group {group.groupid}: {words}")
        log_error(group, msg, **more)

    groups.log_error = log_why
    groups.rule = property(lambda group: SimpleNamespace(name=group.groupid))


def message(name: str, outputs: int, log: bool) -> str:
    """What Snakemake says of a job of a rule as it begins: two of its files and its log, by Snakemake's own wildcards.

    Without a message it lists all that the job reads, some eighty files; a dry run still does.
    """
    made = ", ".join(f"{{output[{place}]}}" for place in range(min(2, outputs)))
    more = f" and {outputs - 2} more" if outputs > 2 else ""
    return name + (f": {made}{more}" if made else "") + (" (log: {log})" if log else "")
