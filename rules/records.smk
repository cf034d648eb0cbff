# Records: what was measured on hardware that is not here, brought back; what was measured here, published.
# Needs: results/recorded/{device}/, which is in git; minilab/records/artefact.py says what a record holds.
# Makes: results/24/{device}/*.json, results/25/{device}/*.json, results/25/{model}/{device}/*.json and
#   results/26/{device}/{model,training}.json and results/27/{device}/*.json for devices that are not here; `snakemake record` writes results/recorded/.
#   `snakemake verify_records` and `snakemake compare_records` say what the record is worth.
# Rules that a person calls for their effect have no output and no benchmark, which would be one: they always run.

RECORDABLE = [entry for entry in TABLE if entry.recorded]


rule restore:
    """Bring a measurement back from the record of a device that is not here, and say whether it is stale."""
    input:
        record=asked(plan.record_of),
        sums=lambda wildcards: f"{RECORDED}/{wildcards.device}/SHA256SUMS",
        sources=asked(plan.recorded_sources),
        schema=asked(lambda entry, wildcards: entry.schema),
    output:
        artefact="results/24/{device}/{file}.json",
    log:
        "logs/24/{device}/restore_{file}.log",
    benchmark:
        "logs/24/{device}/restore_{file}.tsv"
    wildcard_constraints:
        device=none_of(plan.measured),
        file=any_of(entry.file for entry in RECORDABLE if entry.pattern.startswith("results/24/")),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        measuring=asked(plan.measured_with),
        stale=lookup(within=config, dpath="records/stale"),
    script:
        "../scripts/restore.py"


use rule restore as restore_of_model with:
    output:
        artefact="results/25/{model}/{device}/{file}.json",
    log:
        "logs/25/{model}/{device}/restore_{file}.log",
    benchmark:
        "logs/25/{model}/{device}/restore_{file}.tsv"
    wildcard_constraints:
        model="[A-Za-z0-9_-]+",
        device=none_of([*plan.measured, SIMULATED]),
        file=any_of(
            entry.file
            for entry in RECORDABLE
            if entry.pattern.startswith("results/25/{model}/") or "/minigpt/" in entry.pattern
        ),


use rule restore as restore_distributed with:
    output:
        artefact="results/25/{device}/{file}.json",
    log:
        "logs/25/{device}/restore_{file}.log",
    benchmark:
        "logs/25/{device}/restore_{file}.tsv"
    wildcard_constraints:
        device=none_of(plan.measured_together),
        file="distributed",


use rule restore as restore_gemv with:
    output:
        artefact="results/25/{device}/{file}.json",
    log:
        "logs/25/{device}/restore_{file}.log",
    benchmark:
        "logs/25/{device}/restore_{file}.tsv"
    wildcard_constraints:
        device=none_of(plan.measured),
        file="gemv",


use rule restore as restore_model with:
    output:
        artefact="results/26/{device}/{file}.json",
    log:
        "logs/26/{device}/restore_{file}.log",
    benchmark:
        "logs/26/{device}/restore_{file}.tsv"
    wildcard_constraints:
        device=none_of(plan.measured),
        file=any_of(entry.file for entry in RECORDABLE if entry.pattern.startswith("results/26/")),


use rule restore as restore_loss with:
    output:
        artefact="results/27/{device}/{file}.json",
    log:
        "logs/27/{device}/restore_{file}.log",
    benchmark:
        "logs/27/{device}/restore_{file}.tsv"
    wildcard_constraints:
        device=none_of(plan.measured),
        file=any_of(entry.file for entry in RECORDABLE if entry.pattern.startswith("results/27/")),


rule record:
    """Publish this run's measurements and pictures as the record of the devices measured here."""
    input:
        artefacts=refusing(lambda wildcards: [path for device in plan.published for path in plan.to_publish(device)]),
        pages=refusing(lambda wildcards: [path for device in plan.published for path in plan.pages(device)]),
    log:
        "logs/record.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        devices=lambda wildcards: {device: [plan.to_publish(device), plan.pages(device)] for device in plan.published},
        recorded=RECORDED,
        sign=lookup(within=config, dpath="records/sign"),
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
        config=config,
    script:
        "../scripts/verify_records.py"


rule compare_records:
    """Measure again what the record of a device that is here holds, and say which figures moved beyond the noise."""
    input:
        artefacts=refusing(lambda wildcards: plan.to_compare()),
    log:
        "logs/compare_records.log",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(3),
    params:
        recorded=RECORDED,
        rules=lambda wildcards: {rule["name"]: rule["script"] for rule in described(workflow)},
    script:
        "../scripts/compare_records.py"
