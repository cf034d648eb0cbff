# Stage 25, matrix times vector: what a language model does for each new word at batch 1, compiled and by cuBLAS.
# Needs: a GPU; for GPUs that are not here results/recorded/{device}/25/gemv.json, in git (rules/records.smk restores it).
# Makes: results/25/{device}/{gemv.json,gemv.png,GEMV.md}.

GEMV_PAGES = [f"results/25/{device}/{name}" for device in plan.multiplied for name in ("GEMV.md", "gemv.png")]


rule gemv:
    """Time a matrix times a vector, compiled and max-autotuned, beside cuBLAS, in three dtypes at every shape."""
    input:
        sources=sources("gemv"),
        schema="schemas/gemv.schema.yaml",
    output:
        gemv="results/25/{device}/gemv.json",
    log:
        "logs/25/{device}/gemv.log",
    benchmark:
        "logs/25/{device}/gemv.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(8000),
        runtime=growing(minutes(2 * config["gemv"]["time_limit_seconds"])),
    params:
        measuring=measuring("gemv"),
    script:
        "../scripts/gemv.py"


rule gemv_report:
    """Draw compiled products against cuBLAS's, and say where compiling wins."""
    input:
        gemv="results/25/{device}/gemv.json",
        lib=code("scripts/gemv_report.py"),
    output:
        picture=shown("results/25/{device}/gemv.png", "gemv", "gemv"),
        report=shown("results/25/{device}/GEMV.md", "gemv", "gemv_page"),
    log:
        "logs/25/{device}/gemv_report.log",
    benchmark:
        "logs/25/{device}/gemv_report.tsv"
    wildcard_constraints:
        device=any_of(plan.multiplied),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/gemv_report.py"
