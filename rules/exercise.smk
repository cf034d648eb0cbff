# The exercise: the learner's own softmax marked. Not part of `all`; `snakemake --cores 2 exercise` asks for it.
# Needs: exercises/softmax_mine.py; the record of a GPU where none is here, for its roofline. No training.
# Makes: results/exercise/{REPORT.md,roofline.png}.

HERE = devices_here()[0]
SHOWN_GPU = [gpu for gpu in plan.recorded if not is_cpu(gpu)][:1] if is_cpu(HERE) else []


rule exercise:
    """Mark exercises/softmax_mine.py: right where, in how many passes, how fast, and what to try next."""
    input:
        mine="exercises/softmax_mine.py",
        ceilings=expand("results/24/{device}/ceilings.json", device=SHOWN_GPU),
        bench=expand("results/24/{device}/bench.json", device=SHOWN_GPU),
        lib=code("scripts/exercise.py"),
    output:
        report="results/exercise/REPORT.md",
        picture="results/exercise/roofline.png",
    log:
        "logs/exercise.log",
    benchmark:
        "logs/exercise.tsv"
    conda:
        environment(HERE)
    threads: workflow.cores
    resources:
        gpu=0 if is_cpu(HERE) else 1,
        mem_mb=growing(8000),
        runtime=growing(minutes(2 * config["proof"]["time_limit_seconds"] + config["bench"]["time_limit_seconds"])),
    params:
        device=HERE,
        limits={stage: config[stage]["time_limit_seconds"] for stage in ("proof", "bench")},
        bench=artefact("bench").params(config, {"device": HERE, "kernel": ""}),
        headline=lookup(within=config, dpath="roofline/headline/cuda"),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/exercise.py"
