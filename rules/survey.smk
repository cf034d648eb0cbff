# Stage 25, the survey: four ways to train on several devices, explained, measured, compared.
# Needs: nothing of stage 24; for devices that are not here results/recorded/{device}/25/distributed.json, in git.
# Makes: results/25/{device}/distributed.json, results/25/{DISTRIBUTED.md,distributed.png}.


MEASURED_TOGETHER = [device for device in MEASURED if has_ranks(config, device)]
SURVEYED = [
    device
    for device in DEVICES
    if device in MEASURED_TOGETHER or Path(RECORDED, device, "25/distributed.json").exists()
]


rule distributed:
    """Train a widened MiniGPT under DDP, FSDP2, tensor and pipeline parallel, and count what each sends and holds."""
    input:
        sources=DISTRIBUTED_SOURCES,
    output:
        report="results/25/{device}/distributed.json",
    log:
        "logs/25/{device}/distributed.log",
    benchmark:
        "logs/25/{device}/distributed.tsv"
    wildcard_constraints:
        device=any_of(MEASURED_TOGETHER),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=lambda wildcards: 0 if is_cpu(wildcards.device) else max(config["distributed"]["cuda"]["ranks"]),
        mem_mb=growing(24000),
        runtime=growing(minutes(distributed_seconds(config))),
    params:
        measuring=lambda wildcards: distributed_params(config, wildcards.device),
    script:
        "../scripts/distributed.py"


rule restore_distributed:
    """Bring the distributed measurement back from the record of devices that are not here."""
    input:
        record=distributed_record,
        sources=distributed_sources,
        schema="schemas/distributed.schema.yaml",
    output:
        artefact="results/25/{device}/{artefact}.json",
    log:
        "logs/25/{device}/restore_{artefact}.log",
    benchmark:
        "logs/25/{device}/restore_{artefact}.tsv"
    wildcard_constraints:
        device=none_of(MEASURED_TOGETHER),
        artefact="distributed",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        today=lambda wildcards: distributed_params(config, wildcards.device),
        stale=lookup(within=config, dpath="records/stale"),
    script:
        "../scripts/restore.py"


rule survey:
    """Explain the four patterns beside their figures, and say which one MiniGPT wants."""
    input:
        data=expand("results/25/{device}/distributed.json", device=SURVEYED),
        vocabulary=rules.corpus.output.vocabulary,
        words=words_25("survey", templates=["survey_25"]),
        lib=modules_used_by("scripts/survey.py"),
    output:
        survey=shown("results/25/DISTRIBUTED.md", "survey", "survey"),
        picture=shown("results/25/distributed.png", "survey", "distributed"),
    log:
        "logs/25/survey.log",
    benchmark:
        "logs/25/survey.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        model=lookup(within=config, dpath="model"),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/survey.py"
