# Records: what was measured on hardware that is not here, brought back; what was measured here, published.
# Needs: results/recorded/{device}/24/*.json and results/recorded/{device}/25/{model}/*, which are in git.
# Makes: results/24/{device}/*.json and results/25/{model}/{device}/* for devices that are not here;
#   `snakemake record` and `snakemake record_25` write results/recorded/.
#   `snakemake verify_records` and `snakemake compare_records` say what the record is worth.
# Rules that a person calls for their effect have no output and no benchmark, which would be one: they always run.

# With a provenance, by model and device; each has its schema.
SCHEMAS_25 = {
    "profile": "profile",
    "simulated_vs_real": "simulated_vs_real",
    "compile_health": "compile_health",
    "training": "port_training",
}


rule restore:
    """Bring a measurement back from the record of a device that is not here, and say whether it is stale."""
    input:
        record=record_of,
        sources=recorded_sources,
        schema="schemas/{artefact}.schema.yaml",
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
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
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
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
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
        schema=lambda wildcards: f"schemas/{SCHEMAS_25[wildcards.artefact]}.schema.yaml",
    output:
        artefact="results/25/{model}/{device}/{artefact}.json",
    log:
        "logs/25/{model}/{device}/restore_{artefact}.log",
    benchmark:
        "logs/25/{model}/{device}/restore_{artefact}.tsv"
    wildcard_constraints:
        model="[A-Za-z0-9_-]+",
        device=none_of(MEASURED),
        artefact=any_of(SCHEMAS_25),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        today=params_25,
        stale=lookup(within=config, dpath="records/stale"),
    script:
        "../scripts/restore.py"


rule restore_capture:
    """Bring a GPU's capture back from the record, and write its texts as plain files again."""
    input:
        record=lambda wildcards: existing_record_25(wildcards, "capture"),
        sources=lambda wildcards: recorded_sources_25(wildcards, "capture"),
        schema="schemas/capture.schema.yaml",
        lib=modules_used_by("scripts/restore_capture.py"),
    output:
        capture="results/25/{model}/{device}/capture.json",
        fx_graph="results/25/{model}/{device}/fx_graph.py",
        post_grad="results/25/{model}/{device}/post_grad.py",
        ir_pre_fusion="results/25/{model}/{device}/ir_pre_fusion.txt",
        ir_post_fusion="results/25/{model}/{device}/ir_post_fusion.txt",
        output_code="results/25/{model}/{device}/output_code.py",
        kernel="results/25/{model}/{device}/kernel.py",
    log:
        "logs/25/{model}/{device}/restore_capture.log",
    benchmark:
        "logs/25/{model}/{device}/restore_capture.tsv"
    wildcard_constraints:
        model="[A-Za-z0-9_-]+",
        device=none_of([*MEASURED, SIMULATED]),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        today=lambda wildcards: capture_params(wildcards.model),
        stale=lookup(within=config, dpath="records/stale"),
    script:
        "../scripts/restore_capture.py"


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
                f"results/25/{model}/{device}/{file}"
                for device in published_devices(config)
                if not is_cpu(device)
                for model in CAPTURED
                for file in ("capture.json", "explorer.html", "KERNEL_ANNOTATION.md", "kernel.py")
            ),
            *(
                path
                for path in [*COMPARED, *HEALTH, *PORT_TRAININGS, *TRAINING_PICTURES]
                if Path(path).parent.name in published_devices(config)
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
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        devices=lambda wildcards: published_devices(config),
        recorded=RECORDED,
    script:
        "../scripts/record.py"


rule verify_records:
    """Compute everything again that follows from the records' raw samples: which are fresh, which stale, which altered."""
    log:
        "logs/verify_records.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(3),
    params:
        recorded=RECORDED,
        today=lambda wildcards: todays_params(config),
    script:
        "../scripts/verify_records.py"


rule compare_records:
    """Measure again what the record of a device that is here holds, and say which figures moved beyond the noise."""
    input:
        artefacts=compared_measurements,
    log:
        "logs/compare_records.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(3),
    params:
        records=lambda wildcards: list(compared_artefacts(config)),
    script:
        "../scripts/compare_records.py"
