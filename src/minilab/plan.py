"""What a run builds, from its configuration and the devices that are here: plain facts for the rules to ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from minilab.config.check import is_for_cpu
from minilab.device import called_today, devices_here, gpu_devices, gpu_names, has_cpp_compiler, is_cpu, slug
from minilab.errors import LabError
from minilab.files import read_object
from minilab.records.artefact import PAGES, RECORDED, TABLE, Artefact, artefact
from minilab.records.params import MINIGPT, kind_of
from minilab.records.provenance import provenances

SIMULATED_FOR = "h200"  # the GPU that the simulated one stands in for
SIMULATED = f"simulated-{SIMULATED_FOR}"  # Triton for a GPU that is not here: none is needed, nothing is run
TRITON_ONLY = ("minigpt_swapped",)  # the lab's Triton kernel in it has no CPU code
LOOKED_AT, COMPILES = ("ceilings", "bench", "head"), ("watched", "profile_samples")  # of a device, of a model on it
PROFILED = ("tiny_head", "minigpt")  # of the lab's own models; a user's all are


def measured_devices(config: dict, elsewhere: bool = False) -> list[str]:
    """Slugs of the devices whose results are measured in this run.

    Args:
        config: the whole configuration.
        elsewhere: whether jobs run on other machines than this one.

    Raises:
        LabError: the devices shall be found by themselves, and jobs run elsewhere.
    """
    measure = config["devices"]["measure"]
    if measure == "auto" and elsewhere:
        raise LabError(
            "devices.measure: auto asks the machine that snakemake runs on, and its jobs run on others; name the "
            "devices of those, e.g. --config 'devices={measure: [h200], recorded: auto}'."
        )
    return devices_here() if measure == "auto" else list(dict.fromkeys(map(called_today, measure)))


def _files_of(made: Mapping) -> list[str]:
    """The files that a result was made with, by its provenance."""
    return [*(made.get("sources") or ()), *made.get("opened", ())]


@dataclass(frozen=True)
class Plan:
    """What one run measures, restores and shows.

    Attributes:
        config: the whole configuration.
        measured: slugs of the devices whose results are measured in this run.
        records: the folder of the records.
    """

    config: dict
    measured: list[str]
    records: str = RECORDED

    @cached_property
    def recorded(self) -> list[str]:
        """Slugs of the devices whose results are restored."""
        recorded = self.config["devices"]["recorded"]
        if recorded == "auto":
            recorded = sorted(path.name for path in Path(self.records).glob("*/") if (path / "24").is_dir())
        return [device for device in recorded if called_today(device) not in self.measured]

    @cached_property
    def devices(self) -> list[str]:
        """Slugs of all devices that are shown, measured ones first."""
        return [*self.measured, *self.recorded]

    @property
    def published(self) -> list[str]:
        """Slugs of the devices whose results `snakemake record` publishes.

        Raises:
            LabError: none is asked for, and no GPU is measured.
        """
        publish = self.config["records"]["publish"]
        if publish == "auto":
            publish = [device for device in self.measured if not is_cpu(device)]
        if not publish:
            raise LabError(
                "No GPU is measured here, so there is nothing to record; run it on a machine with a GPU, or publish "
                f"this CPU's figures with --config 'records={{stale: mark, publish: [{self.measured[-1]}]}}'."
            )
        return publish

    @cached_property
    def headline_gpu(self) -> list[str]:
        """The GPU that the manifest and the report speak of, as a list: the first one shown, or none."""
        return [device for device in self.devices if not is_cpu(device)][:1]

    def headline_with(self, name: str) -> list[str]:
        """The headline GPU, as a list, if it has an artefact: one that is here, or one whose record holds it."""
        return [gpu for gpu in self.headline_gpu if self.has(name, device=gpu)]

    def has(self, name: str, made_here: bool = True, **wildcards: str) -> bool:
        """Whether there is an artefact to show: its device is here and makes it, or is not, and its record is."""
        if wildcards["device"] in self.measured:
            return made_here
        return Path(artefact(name).record(**wildcards)).exists()

    def kernels_of(self, device: str) -> list[str]:
        """Names of the configured kernels that are proven on a device: all but, on a GPU, those written for a CPU.

        A CPU proves a GPU's too: Triton in its interpreter, CUDA C by compiling it.
        """
        return [name for name, entry in self.config["kernels"].items() if is_cpu(device) or not is_for_cpu(entry)]

    def timed_kernels(self, device: str) -> list[str]:
        """Names of everything that is timed on a device: the kernels that are written for it, then the references.

        On a machine without a C++ compiler, torch.compile and the kernels in C++ are left out on the CPU; the rest goes
        on.
        """
        entries, references = self.config["kernels"], self.config["references"][kind_of(device)]
        written_for_it = [name for name, entry in entries.items() if is_for_cpu(entry) is is_cpu(device)]
        if not is_cpu(device) or has_cpp_compiler():
            return [*written_for_it, *references]
        return [name for name in references if not name.startswith("compile")]

    @cached_property
    def with_ladder(self) -> list[str]:
        """The CPUs measured here on which kernels in C++ are timed."""
        entries = self.config["kernels"]
        written = {name for name, entry in entries.items() if is_for_cpu(entry)}
        return [device for device in self.measured if is_cpu(device) and written & set(self.timed_kernels(device))]

    @cached_property
    def captured(self) -> list[str]:
        """Names of the models whose compile is captured."""
        return [*self.config["capture"]["models"], *self.config["models"]]

    @cached_property
    def capture_devices(self) -> list[str]:
        """Slugs of the devices that models are compiled for, the simulated one last."""
        return [*self.devices, *([SIMULATED] if self.config["capture"]["simulated"] else [])]

    def made_of_minigpt(self, model: str) -> bool:
        """Whether a model is the trained MiniGPT in one of its forms."""
        return model in MINIGPT and model not in self.config["models"]

    def has_capture(self, model: str, device: str) -> bool:
        """Whether there is a capture of a model for a device: made here, or in the record of one that is not here."""
        compiles = not is_cpu(device) or (model not in TRITON_ONLY and has_cpp_compiler())
        return device == SIMULATED or self.has("watched", compiles, device=device, model=model)

    @cached_property
    def captures(self) -> list[tuple[str, str]]:
        """(model, device) of every capture."""
        return [
            (model, device)
            for model in self.captured
            for device in self.capture_devices
            if self.has_capture(model, device)
        ]

    def captured_twice(self, model: str) -> list[str]:
        """The devices of a model's captures as C++ and as Triton, where there are both; real before simulated."""
        devices = [device for device in self.capture_devices if self.has_capture(model, device)]
        pair = [next((device for device in devices if is_cpu(device) is on_cpu), None) for on_cpu in (True, False)]
        return [device for device in pair if device] if all(pair) else []

    @cached_property
    def compared_with_simulated(self) -> list[str]:
        """Models whose simulated kernels are held against a real GPU's: where it is here, or in its record."""
        if SIMULATED_FOR not in self.devices:
            return []
        at, simulated = {"device": SIMULATED_FOR}, self.config["capture"]["simulated"]
        return [model for model in self.captured if self.has("watched_simulated", simulated, model=model, **at)]

    @property
    def profiled(self) -> list[str]:
        """Names of the models that are profiled."""
        return [*PROFILED, *self.config["models"]]

    @cached_property
    def profiles(self) -> list[tuple[str, str]]:
        """(model, device) of every profile."""
        compiling = {device: not is_cpu(device) or has_cpp_compiler() for device in self.devices}
        return [
            (model, device)
            for model in self.profiled
            for device in self.devices
            if self.has("profile_samples", compiling[device], device=device, model=model)
        ]

    def profiles_beside(self, model: str, devices: list[str]) -> list[str]:
        """The profiles of a model on those of these devices that have one."""
        found = [(model, device) for device in devices if (model, device) in self.profiles]
        return [artefact("profile").path(model=model, device=device) for model, device in found]

    def checks_compile(self, model: str, device: str, name: str) -> bool:
        """Whether the safety net is tried with a model on a device: here, or in the record of one that is not here."""
        compiles = self.has_capture(model, device)
        return self.config["compile"]["enabled"] and self.has(name, compiles, device=device, model=model)

    @cached_property
    def health(self) -> list[tuple[str, str]]:
        """(model, device) of every check of a compile's health."""
        return [
            (model, device)
            for model in self.captured
            for device in self.devices
            if self.checks_compile(model, device, "compile_health")
        ]

    @cached_property
    def port_trainings(self) -> list[str]:
        """Devices that the port is trained on, eager and compiled."""
        return [device for device in self.devices if self.checks_compile("minigpt", device, "port_training")]

    def has_ranks(self, device: str) -> bool:
        """Whether there are devices of this kind for the fewest ranks asked for; a cluster is taken to have them."""
        if is_cpu(device) or device not in gpu_devices():
            return True
        here = sum(slug(name) == device for name in gpu_names())
        return here >= min(self.config["distributed"]["cuda"]["ranks"])

    @cached_property
    def losses(self) -> list[str]:
        """Devices on which linear and cross-entropy are timed and judged: those here, those whose record holds both."""
        names = ("loss", "loss_correctness")
        return [device for device in self.devices if all(self.has(name, device=device) for name in names)]

    @cached_property
    def measured_together(self) -> list[str]:
        """Devices of which there are enough to measure distributed training."""
        return [device for device in self.measured if self.has_ranks(device)]

    @cached_property
    def multiplied(self) -> list[str]:
        """GPUs whose matrix-vector products are shown: those that are here, and those whose record holds them."""
        return [device for device in self.devices if not is_cpu(device) and self.has("gemv", device=device)]

    @cached_property
    def surveyed(self) -> list[str]:
        """Devices whose distributed training the survey shows."""
        distributed = artefact("distributed")
        return [
            device
            for device in self.devices
            if device in self.measured_together or Path(distributed.record(device=device)).exists()
        ]

    def record_of(self, entry: Artefact, wildcards: Mapping[str, str]) -> str:
        """The record of an artefact.

        Raises:
            LabError: there is none; the sentence names the missing device, and the command that would measure it.
        """
        path, device = entry.record(**wildcards), wildcards["device"]
        if Path(path).exists():
            return path
        fewest = min(self.config["distributed"]["cuda"]["ranks"])
        several = entry.name == "distributed"
        missing, them = (f"are not {fewest} devices", "them") if several else ("is no device", "it")
        raise LabError(
            f"There {missing} {device} here and no record of {them} in {path}; on a machine that has {them}, run "
            f"`snakemake --cores 4 {entry.path(**wildcards)}`, then `snakemake --cores 4 record`."
        )

    def recorded_sources(self, entry: Artefact, wildcards: Mapping[str, str]) -> list[str]:
        """The files that decide whether a record is stale: those that it was measured with, and those of today."""
        made = provenances(read_object(self.record_of(entry, wildcards)))
        before = {path for one in made.values() if isinstance(one, dict) for path in _files_of(one)}
        today = {path for kernel in made for path in entry.sources(self.config, {**wildcards, "kernel": kernel})}
        return sorted({path for path in before if Path(path).exists()} | today)

    @cached_property
    def looked_at(self) -> list[tuple[Artefact, dict[str, str]]]:
        """The records that a first look shows, each as its entry and wildcards: softmax's on every device, GPUs first,
        and of the first GPU one compile, MiniGPT's where it has that, and the whole model.
        """
        of_kernels = [(name, {"device": device}) for device in sorted(self.recorded, key=is_cpu) for name in LOOKED_AT]
        compiles: list[tuple[str, dict[str, str]]] = []
        for device in self.headline_gpu:
            models = dict.fromkeys(("minigpt", *self.captured))
            model = next((name for name in models if self.has("watched", model=name, device=device)), None)
            compiles += [(name, {"model": model, "device": device}) for name in COMPILES if model]
            compiles.append(("model_contest", {"device": device}))
        found = [(artefact(name), wildcards) for name, wildcards in (*of_kernels, *compiles)]
        return [(entry, wildcards) for entry, wildcards in found if Path(entry.record(**wildcards)).exists()]

    def measured_with(self, entry: Artefact, wildcards: Mapping[str, str]) -> dict:
        """Today's measuring parameters to hold a record against: by kernel for the bench, under "" for any other."""
        kernels = self.timed_kernels(wildcards["device"]) if entry.name == "bench" else [""]
        return {kernel: entry.params(self.config, {**wildcards, "kernel": kernel}) for kernel in kernels}

    def to_publish(self, device: str) -> list[str]:
        """The artefacts of a device that `record` publishes: all in the table that this run measures on it."""
        found = []
        for entry in TABLE:
            if not entry.recorded or (entry.gpu_only and is_cpu(device)):
                continue
            found += [entry.path(**wildcards) for wildcards in self.places(entry) if wildcards["device"] == device]
        return found

    def pages(self, device: str) -> dict[str, tuple[str, list[str]]]:
        """The pictures and pages that `record` publishes of a device: path -> (script that draws it, what it shows)."""
        found = {}
        published = set(self.to_publish(device))
        for page in PAGES:
            for model in self.captured if "{model}" in page.pattern else [""]:
                shows = [pattern.format(device=device, model=model) for pattern in page.shows]
                if all(path in published for path in shows):
                    found[page.pattern.format(device=device, model=model)] = (page.script, shows)
        return found

    def to_compare(self) -> list[str]:
        """The timed artefacts of the published devices that records hold: what `compare_records` measures again.

        Raises:
            LabError: there is no record of any of these devices.
        """
        found = [
            entry.path(**wildcards)
            for entry in TABLE
            if entry.recorded and entry.timed
            for wildcards in self.places(entry)
            if wildcards["device"] in self.published and Path(entry.record(**wildcards)).exists()
        ]
        if not found:
            raise LabError(
                f"There is no record of {', '.join(self.published)} to compare with; publish one with "
                "`snakemake --cores 4 record`."
            )
        return found

    def places(self, entry: Artefact) -> list[dict[str, str]]:
        """The wildcards with which a recordable artefact exists in this run."""
        by_model = {
            "watched": [place for place in self.captures if place[1] != SIMULATED],
            "watched_simulated": [(model, SIMULATED_FOR) for model in self.compared_with_simulated],
            "profile_samples": self.profiles,
            "compile_health": self.health,
        }
        if entry.name in by_model:
            return [{"model": model, "device": device} for model, device in by_model[entry.name]]
        devices = {"port_training": self.port_trainings, "distributed": self.surveyed, "gemv": self.multiplied}
        devices |= dict.fromkeys(("loss", "loss_correctness"), self.losses)
        devices |= {name: self.headline_with(name) for name in ("contest", "head", "model_contest", "training_contest")}
        return [{"device": device} for device in devices.get(entry.name, self.devices)]
