"""Helper functions of stage 25, beside those of common.smk: plain Python, no rules."""

from minilab.device import gpu_devices, gpu_names, slug

SIMULATED = "simulated-h200"  # Triton for an H200 that is not here: no GPU is needed, nothing is run
DISTRIBUTED_SOURCES = [
    *sorted(str(path) for path in Path("src/minicompile/distributed").glob("*.py") if "survey" not in path.name),
    "src/minimodel/model_config.py",
    "src/minimodel/torch_minigpt.py",
]

# What decides a capture: what watches the compile, and the models; the rest of what the script imports writes files.
CAPTURE_SOURCES = [
    *(path for path in modules_used_by("scripts/capture.py") if path.startswith("src/minicompile/lowering/")),
    "src/minicompile/lowering/data/fusion_reasons.yaml",
    "src/minicompile/models.py",
]
# What decides whether a compile is healthy, and what a training of the port comes to.
HEALTH_SOURCES = [
    *(
        f"src/minicompile/safe/{name}.py"
        for name in ("compile_benchmark", "compile_health", "installation", "numerics", "safe_compile", "smoketest")
    ),
    "src/minicompile/models.py",
]
TRAINING_SOURCES = [
    "src/minicompile/models.py",
    "src/minicompile/training/measure.py",
    "src/minicompile/training/trainer.py",
    *(f"src/minimodel/{name}" for name in ("corpus.py", "data/grammar.yaml", "data/lexicon.yaml", "optim.py")),
    "src/minimodel/torch_minigpt.py",
]
CPP_THREADS = 2  # that Inductor's C++ is written for
PACKED = ["capture"]  # recorded as .json.xz: megabytes of text that repeats itself


def distributed_params(config, device):
    """The configuration that a device's distributed.json depends on."""
    distributed = config["distributed"]
    common = {name: value for name, value in distributed.items() if name not in ("cpu", "cuda")}
    return {**common, **distributed[kind(device)]}


def has_ranks(config, device):
    """Whether there are devices of this kind for the fewest ranks asked for; one that is not here is on a cluster."""
    if is_cpu(device) or device not in gpu_devices():
        return True
    here = sum(slug(name) == device for name in gpu_names())
    return here >= min(config["distributed"]["cuda"]["ranks"])


def distributed_record(wildcards):
    """The record to restore, or one sentence about what is missing and how to measure it."""
    path = f"{RECORDED}/{wildcards.device}/25/distributed.json"
    if not Path(path).exists():
        raise WorkflowError(
            f"There are not {min(config['distributed']['cuda']['ranks'])} devices {wildcards.device} here and no record "
            f"of them in {path}; on a machine that has them, run "
            f"`snakemake --cores 4 results/25/{wildcards.device}/distributed.json`, then `snakemake --cores 4 record_25`."
        )
    return path


def distributed_sources(wildcards):
    """The files that the record was measured with and that still exist: editing one restores the record anew."""
    sources = read_json(distributed_record(wildcards))["provenance"]["sources"]
    return sorted(source for source in sources if Path(source).exists())


def made_of_minigpt(model):
    """Whether a model is the trained MiniGPT in one of its forms."""
    return model.startswith("minigpt") and model not in config["models"]


def captured_sources(model):
    """The files that a model's capture depends on: what captures, and what it is made of."""
    if model in config["models"]:
        return [*CAPTURE_SOURCES, config["models"][model]["source"]]
    own = ["src/minimodel/torch_minigpt.py"] if made_of_minigpt(model) else []
    swapped = [*kernel_files(config, TUNED_KERNEL), "src/minikernel/ops/triton_operator.py"]
    return [*CAPTURE_SOURCES, *own, *(swapped if model in TRITON_ONLY else [])]


def has_capture(model, device):
    """Whether there is a capture of a model for a device: made here, or in the record of a device that is not here."""
    if device == SIMULATED:
        return True
    if device in MEASURED:
        return not is_cpu(device) or (model not in TRITON_ONLY and has_cpp_compiler())
    return Path(record_25(device, model, "capture")).exists()


def compares_with_simulated(config, model, device):
    """Whether a model's simulated kernels are held against a device's: where it is here, or in its record."""
    if device in MEASURED:
        return config["capture"]["simulated"]
    return device in DEVICES and Path(record_25(device, model, "simulated_vs_real")).exists()


def params_25(wildcards):
    """Today's parameters of what `restore_25` brings back."""
    if wildcards.artefact == "profile":
        return profile_params(config, wildcards.model, wildcards.device)
    if wildcards.artefact == "compile_health":
        return health_params(wildcards.model)
    if wildcards.artefact == "training":
        return port_training_params(config, wildcards.device)
    return capture_params(wildcards.model)


def capture_params(model):
    """The configuration that a capture depends on."""
    entry, sizes = config["models"].get(model), config["model"] if made_of_minigpt(model) else None
    return {"entry": entry, "shape": config["capture"]["shape"], "threads": CPP_THREADS, "model": sizes}


def profile_params(config, model, device):
    """The configuration that a model's profile on a device depends on."""
    profile = config["profile"]
    return {
        "calls": profile["calls"],
        "samples": profile["samples"],
        "largest_difference": profile["largest_difference"][model],
        "cases": profile[kind(device)][model],
        "compile": config["compile"],
    }


def health_params(model):
    """The configuration that the health of a model's compile depends on."""
    made = capture_params(model)
    return {"compile": config["compile"], **{name: made[name] for name in ("entry", "shape", "model")}}


def health_sources(model):
    """The files that the health of a model's compile depends on: the safety net's, and what the model is made of."""
    return [*HEALTH_SOURCES, *(source for source in captured_sources(model) if source not in CAPTURE_SOURCES)]


def port_training_params(config, device):
    """The configuration that the port's training on a device depends on."""
    own = {"steps": config["port_training"]["steps"][kind(device)], "compile": config["compile"]}
    return {**{section: config[section] for section in ("model", "corpus", "training")}, **own}


def checks_compile(model, device, artefact):
    """Whether the safety net is tried with a model on a device: here, or in the record of a device that is not here."""
    if not config["compile"]["enabled"]:
        return False
    return has_capture(model, device) if device in MEASURED else Path(record_25(device, model, artefact)).exists()


def captured_twice(model):
    """A model's captures as C++ and as Triton, where there are both; a real GPU's comes before the simulated one's."""
    devices = [device for device in CAPTURE_DEVICES if has_capture(model, device)]
    pair = [[device for device in devices if is_cpu(device) is on_cpu][:1] for on_cpu in (True, False)]
    return [f"results/25/{model}/{device}/capture.json" for device in sum(pair, [])] if all(pair) else []


def profiles_beside(captures):
    """The profiles of these captures, of those that have one."""
    return [profile for capture in captures if (profile := capture.replace("capture.json", "profile.json")) in PROFILES]


def record_25(device, model, artefact):
    """Where an artefact of stage 25 is recorded."""
    return f"{RECORDED}/{device}/25/{model}/{artefact}.json{'.xz' if artefact in PACKED else ''}"


def existing_record_25(wildcards, artefact=None):
    """The record to restore, or one sentence about what is missing and how to measure it."""
    artefact = artefact or wildcards.artefact
    path = record_25(wildcards.device, wildcards.model, artefact)
    if not Path(path).exists():
        made = f"results/25/{wildcards.model}/{wildcards.device}/{artefact}.json"
        raise WorkflowError(
            f"There is no device {wildcards.device} here and no record of it in {path}; on a machine that has one, run "
            f"`snakemake --cores 4 {made}`, then `snakemake --cores 4 record_25`."
        )
    return path


def recorded_sources_25(wildcards, artefact=None):
    """The files that a record was measured with and that still exist: editing one restores the record anew."""
    sources = read_json(existing_record_25(wildcards, artefact))["provenance"]["sources"]
    return sorted(source for source in sources if Path(source).exists())


def compared(side):
    """An input function: the capture that config's `before` or `after` names, as MODEL/DEVICE or as a file's path."""

    def capture(wildcards):
        named = config.get(side)
        if not named:
            raise WorkflowError(
                "diff_compiles compares two captures, and it is not said which; run `snakemake --cores 2 diff_compiles "
                "--config before=MODEL/DEVICE after=MODEL/DEVICE`, or give the paths of two capture.json."
            )
        return named if named.endswith(".json") else f"results/25/{named}/capture.json"

    return capture


def distributed_seconds(config):
    """Seconds that the distributed measurement may take: four patterns and one process alone, on each number of ranks."""
    distributed = config["distributed"]
    return 5 * distributed["time_limit_seconds"] * max(len(distributed[kind]["ranks"]) for kind in ("cpu", "cuda"))


def words_25(*pages, templates=()):
    """The words of stage 25's reports: catalogues in config's language, what artefacts say in it, and the templates."""
    folder = Path("src/minicompile/templates")
    found = [str(path) for page in templates for path in sorted(folder.glob(f"{page}.*md"))]
    return [words_of("minicompile", page) for page in (*pages, "told")] + found
