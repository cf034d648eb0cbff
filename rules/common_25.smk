"""Helper functions of stage 25, beside those of common.smk: plain Python, no rules."""

from minilab.device import gpu_devices, gpu_names, slug

DISTRIBUTED_SOURCES = [
    *sorted(str(path) for path in Path("src/minicompile/distributed").glob("*.py") if "survey" not in path.name),
    "src/minimodel/model_config.py",
    "src/minimodel/torch_minigpt.py",
]


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
    """The files of a model that are not imported by name: a user's own, or the kernel that is swapped in."""
    if model in config["models"]:
        return [config["models"][model]["source"]]
    return [*kernel_files(config, TUNED_KERNEL), "src/minikernel/triton_operator.py"] if model in TRITON_ONLY else []


def capture_params(model):
    """The configuration that a capture depends on."""
    return {"entry": config["models"].get(model), "shape": config["capture"]["shape"]}


def profile_params(config, model, device):
    """The configuration that a model's profile on a device depends on."""
    profile = config["profile"]
    return {
        "calls": profile["calls"],
        "samples": profile["samples"],
        "largest_difference": profile["largest_difference"][model],
        "cases": profile[kind(device)][model],
    }


def captured_twice(model):
    """A model's captures as C++ and as Triton, where there are both."""
    wanted = [*(device for device in CAPTURE_DEVICES if is_cpu(device)), *CAPTURED_BESIDE[:1]]
    captures = [capture for device in wanted if (capture := f"results/25/{model}/{device}/capture.json") in CAPTURES]
    return captures if len(captures) == 2 else []


def profiles_beside(captures):
    """The profiles of these captures, of those that have one."""
    return [profile for capture in captures if (profile := capture.replace("capture.json", "profile.json")) in PROFILES]


def record_25(device, model, artefact):
    """Where an artefact of stage 25 is recorded."""
    return f"{RECORDED}/{device}/25/{model}/{artefact}.json"


def existing_record_25(wildcards):
    """The record to restore, or one sentence about what is missing and how to measure it."""
    path = record_25(wildcards.device, wildcards.model, wildcards.artefact)
    if not Path(path).exists():
        made = f"results/25/{wildcards.model}/{wildcards.device}/{wildcards.artefact}.json"
        raise WorkflowError(
            f"There is no device {wildcards.device} here and no record of it in {path}; on a machine that has one, run "
            f"`snakemake --cores 4 {made}`, then `snakemake --cores 4 record_25`."
        )
    return path


def recorded_sources_25(wildcards):
    """The files that a record was measured with and that still exist: editing one restores the record anew."""
    sources = read_json(existing_record_25(wildcards))["provenance"]["sources"]
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
