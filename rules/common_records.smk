"""Helper functions of the records and the lock: plain Python, no rules."""

from types import SimpleNamespace


def todays_params(config):
    """Today's measuring parameters of everything in the record, by the record's path."""
    today = {}
    for device in sorted(path.name for path in Path(RECORDED).glob("*/")):
        folder = Path(RECORDED, device)
        for artefact in ARTEFACTS:
            wildcards = SimpleNamespace(device=device, artefact=artefact)
            today[f"{folder}/24/{artefact}.json"] = restored_params(config, wildcards)
        today[f"{folder}/25/distributed.json"] = distributed_params(config, device)
        for path in sorted(folder.glob("25/*/*.json*")):
            model, artefact = path.parent.name, path.name.split(".json")[0]
            if model in CAPTURED and (artefact != "profile" or model in PROFILED):
                today[str(path)] = params_25(SimpleNamespace(device=device, model=model, artefact=artefact))
    return today


def compared_artefacts(config):
    """What `compare_records` measures again: every recorded artefact of the published devices, and where its record is."""
    return {
        str(path): f"results/24/{device}/{path.name}"
        for device in published_devices(config)
        for path in (Path(RECORDED, device, "24", f"{artefact}.json") for artefact in artefacts_of(device))
        if path.exists() and path.stem != "kernel_swap"
    }


def compared_measurements(wildcards):
    """The measurements to compare, or one sentence about the record that is missing."""
    found = compared_artefacts(config)
    if not found:
        raise WorkflowError(
            f"There is no record of {', '.join(published_devices(config))} to compare with; publish one with "
            "`snakemake --cores 4 record`."
        )
    return list(found.values())


def made_from(script, sections, of, data=()):
    """What a result is made from: the script with all that it imports, sections of the configuration, other results."""
    return {"sources": [script, *modules_used_by(script), *data], "config": sections, "of": of}


def other_lock(wildcards):
    """The lock of the other build, which config's `against` names."""
    if not config.get("against"):
        raise WorkflowError(
            "explain_drift compares this build with another, and it is not said which; run `snakemake --cores 4 "
            "explain_drift --config against=PATH`, with the path of the other build's lab.lock.json."
        )
    return config["against"]
