# Stage 27, the head that trains: linear and cross-entropy, forward and backward, by everybody who computes it.
# Needs: nothing but this machine; for GPUs that are not here results/recorded/{device}/27/*.json, in git
#   (rules/records.smk restores them); each device's ceilings to draw.
# Makes: results/27/{device}/{loss,loss_correctness}.json, results/27/{loss.png,loss.svg,README.md}.

LOSSES = expand("results/27/{device}/loss.json", device=plan.losses)


rule loss_correctness:
    """Hold everybody's linear and cross-entropy against float64, on cases where one of them has been wrong."""
    input:
        sources=sources("loss_correctness"),
        schema="schemas/loss_correctness.schema.yaml",
    output:
        verdicts="results/27/{device}/loss_correctness.json",
    log:
        "logs/27/{device}/loss_correctness.log",
    benchmark:
        "logs/27/{device}/loss_correctness.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(16000),
        runtime=growing(15),
    params:
        measuring=measuring("loss_correctness"),
    script:
        "../scripts/loss_correctness.py"


rule loss_contest:
    """Time everybody's linear and cross-entropy in one process, with the memory that each takes and its errors."""
    input:
        sources=sources("loss"),
        schema="schemas/loss.schema.yaml",
    output:
        loss="results/27/{device}/loss.json",
    log:
        "logs/27/{device}/loss_contest.log",
    benchmark:
        "logs/27/{device}/loss_contest.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(16000),
        runtime=growing(20),
    params:
        measuring=measuring("loss"),
    script:
        "../scripts/loss_contest.py"


rule loss_picture:
    """Draw the time of a training step's loss against the memory that it takes, everybody a dot at each shape."""
    input:
        losses=LOSSES,
        ceilings=expand("results/24/{device}/ceilings.json", device=plan.losses),
        lib=code("scripts/loss_picture.py"),
    output:
        png=shown("results/27/loss.png", "loss", "loss_contest"),
        svg="results/27/loss.svg",
    log:
        "logs/27/loss_picture.log",
    benchmark:
        "logs/27/loss_picture.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/loss_picture.py"


rule report_27:
    """Say who computes the loss of a head fastest and in least memory, and whose gradients are right."""
    input:
        losses=LOSSES,
        verdicts=expand("results/27/{device}/loss_correctness.json", device=plan.losses),
        picture=rules.loss_picture.output.png,
        lib=code("scripts/report_27.py"),
    output:
        report=shown("results/27/README.md", "loss", "loss_report"),
    log:
        "logs/27/report_27.log",
    benchmark:
        "logs/27/report_27.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/report_27.py"
