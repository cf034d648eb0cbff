# Stage 25, the survey: four ways to train on several devices, explained, measured, compared.
# Needs: nothing of stage 24; for devices that are not here results/recorded/{device}/25/distributed.json, in git.
# Makes: results/25/{device}/distributed.json, results/25/{DISTRIBUTED.md,distributed.png}.


SECONDS = (
    2  # rounds: one process alone, then each number of ranks
    * config["distributed"]["time_limit_seconds"]
    * max(1 + len(config["distributed"][kind]["ranks"]) for kind in ("cpu", "cuda"))
)


rule distributed:
    """Train a widened MiniGPT under DDP, FSDP2, tensor and pipeline parallel, and count what each sends and holds."""
    input:
        sources=sources("distributed"),
    output:
        report="results/25/{device}/distributed.json",
    log:
        "logs/25/{device}/distributed.log",
    benchmark:
        "logs/25/{device}/distributed.tsv"
    wildcard_constraints:
        device=any_of(plan.measured_together),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=lambda wildcards: 0 if is_cpu(wildcards.device) else max(config["distributed"]["cuda"]["ranks"]),
        mem_mb=growing(24000),
        runtime=growing(minutes(SECONDS)),
    params:
        measuring=measuring("distributed"),
    script:
        "../scripts/distributed.py"


rule survey:
    """Explain the four patterns beside their figures, and say which one MiniGPT wants."""
    input:
        data=expand("results/25/{device}/distributed.json", device=plan.surveyed),
        vocabulary=rules.corpus.output.vocabulary,
        lib=code("scripts/survey.py"),
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
