"""Helper functions of the workflow: plain Python, no rules."""

import os
import re
import shutil
from pathlib import Path

from minikernel.ops.registry import spec_of
from minilab import LabError
from minilab.config import check_config, read_schema
from minilab.device import devices_here, is_cpu
from minilab.files import read_json
from minilab.records.closure import modules_used_by
from minilab.resources import growing, minutes

RECORDED = "results/recorded"


def checked_config(config, schema="schemas/config.schema.yaml"):
    """The configuration itself, once it has been held against its schema."""
    try:
        check_config(config, read_schema(schema))
    except LabError as error:
        raise WorkflowError(str(error)) from None
    return config


def measured_devices(config, elsewhere=False):
    """Slugs of the devices whose results are measured in this run; `elsewhere` says that jobs run on other machines."""
    measure = config["devices"]["measure"]
    if measure == "auto" and elsewhere:
        raise WorkflowError(
            "devices.measure: auto asks the machine that snakemake runs on, and its jobs run on others; name the devices "
            "of those, e.g. --config 'devices={measure: [h200], recorded: auto}'."
        )
    return devices_here() if measure == "auto" else measure


def recorded_devices(config):
    """Slugs of the devices whose results are restored from the record."""
    recorded = config["devices"]["recorded"]
    if recorded == "auto":
        recorded = sorted(path.name for path in Path(RECORDED).glob("*/") if (path / "24").is_dir())
    return [device for device in recorded if device not in measured_devices(config)]


def published_devices(config):
    """Slugs of the devices whose results `snakemake record` publishes."""
    publish = config["records"]["publish"]
    if publish == "auto":
        publish = [device for device in measured_devices(config) if not is_cpu(device)]
    if not publish:
        raise WorkflowError(
            "No GPU is measured here, so there is nothing to record; run it on a machine with a GPU, "
            f"or publish this CPU's figures with --config 'records={{stale: mark, publish: [{measured_devices(config)[-1]}]}}'."
        )
    return publish


def any_of(devices):
    """A wildcard pattern that matches exactly these slugs, and nothing where there are none."""
    return "|".join(map(re.escape, devices)) or "(?!)"


def none_of(devices):
    """A wildcard pattern that matches every slug but these."""
    return f"(?!(?:{any_of(devices)})/)[a-z0-9][a-z0-9-]*"


def kind(device):
    """The kind of hardware behind a slug, as the configuration names it: cpu or cuda."""
    return "cpu" if is_cpu(device) else "cuda"


def gpus(wildcards):
    """How many GPUs a job on the wildcard's device needs."""
    return 0 if is_cpu(wildcards.device) else 1


def has_cpp_compiler():
    """Whether torch.compile can build its C++ kernels here; it asks $CXX, or g++."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


def timed_kernels(config, device):
    """Names of everything that is timed on a device: the kernels (on a GPU), then the references.

    On a machine without a C++ compiler torch.compile is left out on the CPU; the rest goes on.
    """
    references = config["references"][kind(device)]
    if not is_cpu(device):
        return [*config["kernels"], *references]
    return [name for name in references if has_cpp_compiler() or not name.startswith("compile")]


TUNED_KERNEL, ITS_RIVAL = "triton", "fused"  # autotune says which of the two is faster where
CONTESTANTS = [
    *sorted(str(path) for pattern in ("cuda/*.cu*", "softmax_*.py") for path in Path("src/minikernel/ops").glob(pattern)),
    *(f"src/minikernel/ops/{name}" for name in ("lm_head.py", "operator.py", "native.py", "native.cpp", "dispatch.py")),
]
PROBES = ["src/minikernel/measure/ceilings.py", "src/minikernel/measure/multiply_add.py"]
REFERENCE_FILES = {"numpy": ["src/minikernel/ops/softmax_reference.py"]}
ARTEFACTS = ["autotune", "bench", "ceilings", "contest", "kernel_swap"]
GPU_ARTEFACTS = ["autotune", "contest"]


def words_of(package, page):
    """The catalogue of a page's words in config's language: editing a sentence writes the page anew."""
    return f"src/{package.replace('.', '/')}/locale/{config['language']}/{page}.yaml"


def kernel_files(config, kernel):
    """The files that decide what a kernel does: its own, and what its CUDA C includes and is launched by."""
    if kernel not in config["kernels"]:
        return REFERENCE_FILES.get(kernel, [])
    source = config["kernels"][kernel]["source"]
    if not source.endswith(".cu"):
        configurations = source.removesuffix(".py") + "_configs.py"  # of a tuned kernel, beside it
        return [source, *([configurations] if Path(configurations).exists() else [])]
    text = Path(source).read_text() if Path(source).exists() else ""  # Snakemake says that an input is missing
    headers = [str(Path(source).parent / name) for name in re.findall(r'#include "(.+)"', text)]
    return [source, *headers, "src/minikernel/ops/softmax_cuda.py"]


def measuring_params(config, artefact, device, kernel=None):
    """The configuration that a measured artefact depends on; a record measured with another one is stale."""
    if artefact == "bench":
        bench = config["bench"]
        timing = {"dtype": bench["dtype"], "seed": bench["seed"], **bench[kind(device)]}
        return {**timing, "kernel": kernel, "entry": config["kernels"].get(kernel)}
    if artefact == "contest":
        return config["contest"]
    if artefact == "autotune":
        tuned = {"kernel": TUNED_KERNEL, "entry": config["kernels"].get(TUNED_KERNEL)}
        return {**tuned, **config["autotune"]}
    if artefact == "kernel_swap":
        swap = config["swap_kernel"]
        return {"prompt": config["demo_prompt"], "kernel": swap, "entry": config["kernels"][swap]}
    return {}


def time_limit(config, stage, kernel):
    """Seconds that a user's kernel is given in a stage, proof or bench; none for the lab's own, which are trusted."""
    entry = config["kernels"].get(kernel)
    return None if spec_of(kernel, entry) else config[stage]["time_limit_seconds"]


def autotune_choice(device, kernel):
    """The tracked choice that a tuned kernel is launched with; nothing for the others and on a CPU."""
    return f"results/24/{device}/autotune.json" if kernel == TUNED_KERNEL and not is_cpu(device) else []


def record_of(wildcards):
    """The record to restore, or one sentence about what is missing and how to measure it."""
    path = Path(RECORDED, wildcards.device, "24", f"{wildcards.artefact}.json")
    if not path.exists():
        raise WorkflowError(
            f"There is no device {wildcards.device} here and no record of it in {path}; on a machine that has one, run "
            f"`snakemake --cores 4 results/24/{wildcards.device}/{wildcards.artefact}.json`, then `snakemake --cores 4 record`."
        )
    return str(path)


def recorded_sources(wildcards):
    """The files that a record was measured with and that still exist: editing one restores the record anew."""
    record = read_json(record_of(wildcards))
    provenances = [record["provenance"], *record.get("kernels", {}).values()]
    sources = {source for provenance in provenances for source in provenance["sources"]}
    return sorted(source for source in sources if Path(source).exists())


def restored_params(config, wildcards):
    """Today's measuring parameters, by kernel for the bench, to hold a record against."""
    if wildcards.artefact == "bench":
        kernels = timed_kernels(config, wildcards.device)
        return {kernel: measuring_params(config, "bench", wildcards.device, kernel) for kernel in kernels}
    return measuring_params(config, wildcards.artefact, wildcards.device)


def artefacts_of(device):
    """Names of the artefacts that are published of a device: a CPU has nothing to tune and no contest."""
    return [artefact for artefact in ARTEFACTS if not (is_cpu(device) and artefact in GPU_ARTEFACTS)]


def headline_gpu(devices):
    """The GPU that the manifest and the report speak of, as a list: the first one shown, or none."""
    return [device for device in devices if not is_cpu(device)][:1]


def contest_gpu(config, devices):
    """The headline GPU, as a list, if there is a contest of it to show: a GPU that is here, or one whose record has it."""
    here = measured_devices(config)
    return [gpu for gpu in headline_gpu(devices) if gpu in here or Path(RECORDED, gpu, "24/contest.json").exists()]


def environment(device):
    """The pinned environment of a job that runs on a device."""
    return "../envs/cpu.yaml" if is_cpu(device) else "../envs/gpu.yaml"
