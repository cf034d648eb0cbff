# Records: what was measured on hardware that is not here, brought back; what was measured here, published.
# Needs: results/recorded/{device}/24/*.json, which are in git.
# Makes: results/24/{device}/*.json for devices that are not here; `snakemake record` writes results/recorded/.


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
