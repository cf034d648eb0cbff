"""Helper functions of the survey's rules, beside those of common.smk: plain Python, no rules."""

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
            f"`snakemake --cores 4 results/25/{wildcards.device}/distributed.json`, then `snakemake --cores 4 record`."
        )
    return path


def distributed_sources(wildcards):
    """The files that the record was measured with and that still exist: editing one restores the record anew."""
    sources = read_json(distributed_record(wildcards))["provenance"]["sources"]
    return sorted(source for source in sources if Path(source).exists())
