# Records: what was measured on hardware that is not here, brought back; what was measured here, published.
# Needs: results/recorded/{device}/24/*.json and results/recorded/{device}/25/{model}/*, which are in git.
# Makes: results/24/{device}/*.json and results/25/{model}/{device}/* for devices that are not here;
#   `snakemake record` and `snakemake record_25` write results/recorded/.

ARTEFACTS_25 = ["profile"]  # with a schema and a provenance, by model and device


rule restore:
    """Bring a measurement back from the record of a device that is not here, and say whether it is stale."""
    input:
        record=record_of,
        sources=recorded_sources,
        schemas=expand("schemas/{artefact}.schema.yaml", artefact=ARTEFACTS),
    output:
        artefact="results/24/{device}/{artefact}.json",
    log:
        "logs/24/{device}/restore_{artefact}.log",
    benchmark:
        "logs/24/{device}/restore_{artefact}.tsv"
    wildcard_constraints:
        device=none_of(MEASURED),
        artefact=any_of(ARTEFACTS),
    conda:
        "../envs/cpu.yaml"
    params:
        today=lambda wildcards: restored_params(config, wildcards),
        stale=lookup(within=config, dpath="records/stale"),
    script:
        "../scripts/restore.py"


rule record:
    """Publish this run's measurements, pictures and report as the record of the devices measured here."""
    input:
        artefacts=lambda wildcards: [
            f"results/24/{device}/{artefact}.json"
            for device in published_devices(config)
            for artefact in artefacts_of(device)
        ],
        pictures=[
            *rules.roofline.output,
            *(rules.bandwidth.output if CONTEST else []),
            rules.manifest_24.output.manifest,
            rules.report_24.output.report,
        ],
    log:
        "logs/record.log",
    benchmark:
        "logs/record.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        devices=lambda wildcards: published_devices(config),
        recorded=RECORDED,
    script:
        "../scripts/record.py"


rule restore_25:
    """Bring a measurement of stage 25 back from the record of a device that is not here."""
    input:
        record=existing_record_25,
        sources=recorded_sources_25,
        schema=expand("schemas/{artefact}.schema.yaml", artefact=ARTEFACTS_25),
    output:
        artefact="results/25/{model}/{device}/{artefact}.json",
    log:
        "logs/25/{model}/{device}/restore_{artefact}.log",
    benchmark:
        "logs/25/{model}/{device}/restore_{artefact}.tsv"
    wildcard_constraints:
        model="[A-Za-z0-9_-]+",
        device=none_of(MEASURED),
        artefact=any_of(ARTEFACTS_25),
    conda:
        "../envs/cpu.yaml"
    params:
        today=lambda wildcards: profile_params(config, wildcards.model, wildcards.device),
        stale=lookup(within=config, dpath="records/stale"),
    script:
        "../scripts/restore.py"


rule record_25:
    """Publish this run's stage 25 as the record of the devices measured here."""
    input:
        artefacts=lambda wildcards: [
            *(
                f"results/25/{model}/{device}/{file}"
                for device in published_devices(config)
                for model in PROFILED
                for file in ("profile.json", "roofline.png", "PROFILE.md")
            ),
            *(
                f"results/25/{device}/distributed.json"
                for device in published_devices(config)
                if device in MEASURED_TOGETHER
            ),
        ],
        pictures=[],
    log:
        "logs/record_25.log",
    benchmark:
        "logs/record_25.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        devices=lambda wildcards: published_devices(config),
        recorded=RECORDED,
    script:
        "../scripts/record.py"
