"""The table of artefacts: every JSON result of the workflow, what it is measured with, and how it is judged.

Restoring, publishing, verifying and comparing records, and whether one is stale, follow from this table. A new artefact
is one entry here and one rule.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from minilab.device import is_cpu
from minilab.records import params
from minilab.records.params import CUDA_RIVAL, TUNED_KERNEL, Config, Params, Wildcards
from minilab.records.sources.closure import closure
from minilab.records.sources.digests import digest_of_code

RESULTS, RECORDED = "results", "results/recorded"


def _no_kernels(config: Config, at: Wildcards) -> list[str]:
    return []


@dataclass(frozen=True)
class Artefact:
    """One JSON result.

    Attributes:
        name: its own, and its schema's.
        pattern: its path, with `{device}`, `{model}`, `{kernel}` or `{knob}` in it.
        made_by: the script that measures or computes it, where that is not named after it.
        users_script: what measures a user's kernel instead, where that is another.
        cpu_script: what measures it on a CPU instead, where that is another.
        params: the part of the configuration that it depends on.
        kernels: names of the configuration's kernels that it runs; their sources count too, and so does that of the
            model in its path.
        recompute: `module:function` that computes again, of an artefact, what follows from its raw samples.
        recorded: whether records hold it; otherwise it is made anew on each machine.
        gpu_only: whether only GPUs have one.
        packed: whether records hold it compressed, as `.json.xz`.
        timed: whether it holds raw samples of times, which a second measurement can be compared with.
        form: the artefact whose schema it has too.
    """

    name: str
    pattern: str
    params: Params = params.nothing
    kernels: Callable[[Config, Wildcards], list[str]] = _no_kernels
    recompute: str | None = None
    recorded: bool = True
    gpu_only: bool = False
    packed: bool = False
    timed: bool = False
    made_by: str | None = None
    users_script: str | None = None
    cpu_script: str | None = None
    form: str | None = None

    @property
    def script(self) -> str:
        """What measures or computes it; all that this imports is what it depends on."""
        return self.made_by or f"scripts/{self.name}.py"

    @property
    def file(self) -> str:
        """The name of its file without ending, one among those that records hold."""
        return Path(self.pattern).stem

    @property
    def schema(self) -> str:
        return f"schemas/{self.form or self.name}.schema.yaml"

    def path(self, **wildcards: str) -> str:
        """Where it is built."""
        return self.pattern.format(**wildcards)

    def record(self, **wildcards: str) -> str:
        """Where a device's record holds it."""
        return self.record_pattern().format(**wildcards)

    def record_pattern(self, recorded: str | Path = RECORDED) -> str:
        """The pattern of its records: as under `results/`, but for the device's folder, which comes first."""
        inside = self.pattern.removeprefix(f"{RESULTS}/").replace("{device}/", "")
        return f"{Path(recorded).as_posix()}/{{device}}/{inside}{'.xz' if self.packed else ''}"

    def match(self, path: str | Path) -> dict[str, str] | None:
        """The wildcards with which the pattern becomes `path`, or None."""
        return _wildcards(self.pattern, path)

    def sources(self, config: Config, wildcards: Wildcards) -> list[str]:
        """The files that it depends on: the script, what this imports, the entries' own files and their data."""
        kernels = self.kernels(config, wildcards)
        entries = {name: config["kernels"].get(name) for name in kernels}
        if "{model}" in self.pattern:
            entries[wildcards["model"]] = config["models"].get(wildcards["model"])
        used = {name: entry for name, entry in entries.items() if entry}
        # the kernel's owner decides the script, so that an edit of the judge leaves the lab's own kernels fresh
        users = self.users_script and any(is_users_kernel(name, used[name]) for name in kernels if name in used)
        # An entry's function is a name in the registry's table as
        # well: that row of the table is followed, the others are not.
        functions = [entry["function"] for entry in used.values() if "function" in entry]
        script = self.users_script if users else self.script_on(wildcards.get("device", ""))
        starts = [str(script), *(entry["source"] for entry in used.values())]
        return closure(starts, [*entries, *functions], words=False)

    def script_on(self, device: str) -> str:
        """What measures it on a device."""
        return self.cpu_script if self.cpu_script and is_cpu(device) else self.script

    def digests(self, config: Config, wildcards: Wildcards) -> dict[str, str]:
        """The digest of each file that it depends on, today."""
        return {path: digest_of_code(path) for path in self.sources(config, wildcards)}


def is_users_kernel(name: str, entry: dict) -> bool:
    """Whether a kernel is the user's own; `minikernel.judge.entry`, which stands above this package, knows."""
    return import_module("minikernel.judge.entry").is_users(name, entry)


def _wildcards(pattern: str, path: str | Path) -> dict[str, str] | None:
    """The wildcards with which a pattern becomes `path`, or None."""
    found = _expression(pattern).fullmatch(Path(path).as_posix())
    return found.groupdict() if found else None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    # every second part is a wildcard's name, which stands for anything but a slash
    parts = re.split(r"\{(\w+)\}", pattern)
    return re.compile("".join(f"(?P<{part}>[^/]+)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts)))


BY_MODEL, BY_DEVICE = "results/25/{model}/{device}", "results/24/{device}"

TABLE = (
    # Stage 17 and the port are made anew on each machine: there is no figure of hardware in them.
    Artefact("vocab", "results/17/vocab.json", params.sections("corpus"), recorded=False, made_by="scripts/corpus.py"),
    Artefact(
        "training",
        "results/17/training.json",
        params.sections("model", "training", "corpus"),
        recorded=False,
        made_by="scripts/train.py",
    ),
    Artefact("checkpoint", "results/17/checkpoint.json", recorded=False, made_by="scripts/export_checkpoint.py"),
    Artefact("port", "results/24/port.json", recorded=False),
    Artefact("equivalence", "results/24/equivalence.json", params.section("equivalence"), recorded=False),
    Artefact(
        "proof",
        f"{BY_DEVICE}/proof/{{kernel}}.json",
        # a proof is of a kernel's code and of nothing in the configuration but where that lies
        lambda config, at: {"entry": config["kernels"].get(at["kernel"])},
        kernels=lambda config, at: [at["kernel"], "F.softmax"],
        recorded=False,
        made_by="scripts/prove.py",
    ),
    Artefact("ceilings", f"{BY_DEVICE}/ceilings.json", recompute="minikernel.measure.recompute:ceilings", timed=True),
    Artefact("allocation", f"{BY_DEVICE}/allocation.json", params.allocation, recorded=False),
    Artefact(
        "autotune",
        f"{BY_DEVICE}/autotune.json",
        params.autotune,
        # both are timed in the same turns: which one is launched depends on either's code
        kernels=lambda config, at: [TUNED_KERNEL, CUDA_RIVAL],
        recompute="minikernel.measure.recompute:autotune",
        timed=True,
        gpu_only=True,
    ),
    Artefact(
        "bench",
        f"{BY_DEVICE}/bench.json",
        params.bench,
        # a user's kernel is timed from outside (minikernel.judge), a CPU's kernels in one process
        users_script="scripts/bench_users_kernel.py",
        cpu_script="scripts/bench_on_cpu.py",
        kernels=lambda config, at: [at["kernel"], "F.softmax"],
        recompute="minikernel.measure.recompute:bench_rows",
        timed=True,
        made_by="scripts/bench_kernel.py",
    ),
    Artefact(
        "contest",
        f"{BY_DEVICE}/contest.json",
        params.section("contest"),
        recompute="minikernel.measure.recompute:contest",
        timed=True,
        gpu_only=True,
    ),
    Artefact(
        "head",
        f"{BY_DEVICE}/head.json",
        params.section("head"),
        recompute="minikernel.measure.recompute:head",
        timed=True,
        gpu_only=True,
    ),
    Artefact(
        "kernel_swap",
        f"{BY_DEVICE}/kernel_swap.json",
        params.kernel_swap,
        kernels=lambda config, at: [config["swap_kernel"], "F.softmax"],
        recompute="minikernel.proof.kernel_swap:recompute",
    ),
    Artefact(
        "distributed",
        "results/25/{device}/distributed.json",
        params.distributed,
        recompute="minicompile.recompute:distributed",
        timed=True,
    ),
    Artefact(
        "watched", f"{BY_MODEL}/watched.json", params.capture, gpu_only=True, packed=True, made_by="scripts/watch.py"
    ),
    # A compile for a GPU that is not there, with what a clock decided on the real one beside it: only a machine with
    # the GPU can tell whether the two are alike.
    Artefact(
        "watched_simulated",
        f"{BY_MODEL}/watched_simulated.json",
        params.capture,
        gpu_only=True,
        packed=True,
        made_by="scripts/watch_simulated.py",
        form="watched",
    ),
    Artefact("capture", f"{BY_MODEL}/capture.json", recorded=False),
    Artefact("simulated_vs_real", f"{BY_MODEL}/simulated_vs_real.json", recorded=False),
    Artefact("what_if", f"{BY_MODEL}/what_if/{{knob}}.json", params.capture, recorded=False),
    Artefact(
        "profile_samples",
        f"{BY_MODEL}/profile_samples.json",
        params.profile,
        recompute="minicompile.recompute:profile",
        packed=True,
        timed=True,
        made_by="scripts/profile_compile.py",
    ),
    Artefact("profile", f"{BY_MODEL}/profile.json", recorded=False, made_by="scripts/profile_figures.py"),
    Artefact(
        "gemv",
        "results/25/{device}/gemv.json",
        params.section("gemv"),
        recompute="minicompile.recompute:gemv",
        timed=True,
        gpu_only=True,
    ),
    Artefact(
        # What of a compile is judged rather than timed: no samples, though a record holds it.
        "compile_health",
        f"{BY_MODEL}/compile_health.json",
        params.compile_health,
        recompute="minicompile.recompute:compile_health",
    ),
    Artefact(
        "port_training",
        "results/25/minigpt/{device}/training.json",
        params.port_training,
        recompute="minicompile.recompute:training",
        made_by="scripts/train_port.py",
    ),
    Artefact(
        # The samples of every call lie in it, so that each of its figures can be worked out again (`recompute`).
        "model_contest",
        "results/26/{device}/model.json",
        params.model_contest,
        recompute="minikernel.measure.model.recompute:model_contest",
        timed=True,
        gpu_only=True,
    ),
    Artefact(
        "training_contest",
        "results/26/{device}/training.json",
        params.training_contest,
        recompute="minikernel.measure.training.figures:training_contest",
        timed=True,
        gpu_only=True,
    ),
    Artefact(
        "loss",
        "results/27/{device}/loss.json",
        params.loss,
        recompute="minikernel.measure.loss.recompute:loss",
        timed=True,
        made_by="scripts/loss_contest.py",
    ),
    # judged, not timed: no samples, and nothing that could be computed again without the contenders
    Artefact("loss_correctness", "results/27/{device}/loss_correctness.json", params.loss_correctness),
)


@dataclass(frozen=True)
class Page:
    """A picture or page that a record keeps, so that it can be looked at where nothing is built.

    Attributes:
        pattern: its path, with `{device}` or `{model}` in it.
        script: what draws it.
        shows: patterns of the results that it shows, of the device whose record it is.
    """

    pattern: str
    script: str
    shows: tuple[str, ...]


# What a picture shows decides whether it is stale: of these results, as the record has them.
KERNELS_SHOWN = tuple(f"{BY_DEVICE}/{name}.json" for name in ("ceilings", "bench", "head"))
CONTEST_SHOWN = (f"{BY_DEVICE}/contest.json",)
LOSS_SHOWN = ("results/27/{device}/loss.json", f"{BY_DEVICE}/ceilings.json")
MODEL_SHOWN = ("results/26/{device}/model.json", f"{BY_DEVICE}/ceilings.json")
STEPS_SHOWN = ("results/26/{device}/training.json", f"{BY_DEVICE}/ceilings.json")

# Pictures that the README and the site show where nothing is built; `publish` puts them beside the figures.
PAGES = (
    Page("results/24/roofline.png", "scripts/roofline.py", KERNELS_SHOWN),
    Page("results/24/roofline.svg", "scripts/roofline.py", KERNELS_SHOWN),
    Page("results/24/bandwidth.png", "scripts/bandwidth.py", CONTEST_SHOWN),
    Page("results/24/bandwidth.svg", "scripts/bandwidth.py", CONTEST_SHOWN),
    Page(
        "results/25/minigpt/{device}/training.png",
        "scripts/training_picture.py",
        ("results/25/minigpt/{device}/training.json",),
    ),
    Page("results/26/model.png", "scripts/model_picture.py", MODEL_SHOWN),
    Page("results/26/model.svg", "scripts/model_picture.py", MODEL_SHOWN),
    Page("results/26/training.png", "scripts/steps_picture.py", STEPS_SHOWN),
    Page("results/26/training.svg", "scripts/steps_picture.py", STEPS_SHOWN),
    Page("results/27/loss.png", "scripts/loss_picture.py", LOSS_SHOWN),
    Page("results/27/loss.svg", "scripts/loss_picture.py", LOSS_SHOWN),
    Page(
        "results/26/timeline.html",
        "scripts/timeline.py",
        ("results/26/{device}/model.json", "results/26/{device}/training.json"),
    ),
)


def artefact_at(path: str | Path) -> tuple[Artefact, dict[str, str]] | None:
    """The entry of the table that a result's path belongs to, with its wildcards; None for any other file."""
    # patterns do not overlap: the first that fits is the only one
    return next(((one, found) for one in TABLE if (found := one.match(path)) is not None), None)


def artefact_recorded_at(path: str | Path, recorded: str | Path = RECORDED) -> tuple[Artefact, dict[str, str]] | None:
    """The entry of the table that a record's path belongs to, with its wildcards; None for any other file."""
    found = ((one, _wildcards(one.record_pattern(recorded), path)) for one in TABLE if one.recorded)
    return next(((one, wildcards) for one, wildcards in found if wildcards is not None), None)


def artefact(name: str) -> Artefact:
    """The entry of the table with a name."""
    return next(one for one in TABLE if one.name == name)


def recorded_artefact(wildcards: Wildcards) -> Artefact:
    """The entry of the table whose records are called `wildcards.file`, without ending.

    Of two with that name, one is of a model, which `wildcards` names then, and the other of none.
    """
    named = [one for one in TABLE if one.recorded and one.file == wildcards["file"]]
    of_model = [one for one in named if one.pattern.startswith("results/25/{model}/") or "/minigpt/" in one.pattern]
    return next(one for one in named if (one in of_model) == ("model" in wildcards))
