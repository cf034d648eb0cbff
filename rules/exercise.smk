# The exercises: what a learner filled in, marked. Not part of `all`; `snakemake --cores 2 exercise` asks for them,
# `--config exercise=NAME` for one alone.
# Needs: exercises/; the record of a GPU where none is here, for the roofline of one's own softmax. No training.
# Makes: results/exercise/REPORT.md; results/exercise/{exercise}/{REPORT.md,marks.json}; results/exercise/mine/roofline.png.

from minilab.files import read_object

HERE = devices_here()[0]
SHOWN_GPU = [gpu for gpu in plan.recorded if not is_cpu(gpu)][:1] if is_cpu(HERE) else []
EXERCISES = refusing(chosen)(config["exercise"])


wildcard_constraints:
    exercise=any_of(exercises()),


localrules:
    exercise,


rule mark_exercise:
    """Mark one exercise: right where, what it moves, how fast, and what to try next."""
    input:
        source=lambda wildcards: exercises()[wildcards.exercise].source,
        lib=code("scripts/mark_exercise.py"),
    output:
        marks="results/exercise/{exercise}/marks.json",
        report="results/exercise/{exercise}/REPORT.md",
    log:
        "logs/exercise/{exercise}.log",
    benchmark:
        "logs/exercise/{exercise}.tsv"
    conda:
        environment(HERE)
    threads: workflow.cores
    resources:
        gpu=0 if is_cpu(HERE) else 1,
        mem_mb=growing(8000),
        runtime=growing(minutes(config["proof"]["time_limit_seconds"] + config["bench"]["time_limit_seconds"])),
    params:
        device=HERE,
        limits={stage: config[stage]["time_limit_seconds"] for stage in ("proof", "bench")},
        bench=artefact("bench").params(config, {"device": HERE, "kernel": ""}),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/mark_exercise.py"


rule exercise_roofline:
    """Draw the dot of one's own softmax on the roofline of this machine, and what a recorded GPU would allow."""
    input:
        marks="results/exercise/mine/marks.json",
        ceilings=expand("results/24/{device}/ceilings.json", device=SHOWN_GPU),
        bench=expand("results/24/{device}/bench.json", device=SHOWN_GPU),
        lib=code("scripts/exercise_roofline.py"),
    output:
        picture="results/exercise/mine/roofline.png",
    log:
        "logs/exercise/roofline.log",
    benchmark:
        "logs/exercise/roofline.tsv"
    conda:
        environment(HERE)
    threads: workflow.cores
    resources:
        gpu=0 if is_cpu(HERE) else 1,
        mem_mb=growing(8000),
        runtime=growing(5),
    params:
        device=HERE,
        bench=artefact("bench").params(config, {"device": HERE, "kernel": ""}),
        headline=lookup(within=config, dpath="roofline/headline/cuda"),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/exercise_roofline.py"


rule exercise:
    """Say where a learner stands: every exercise with what has become of it, and what to do next."""
    input:
        marks=expand("results/exercise/{exercise}/marks.json", exercise=EXERCISES),
        others=[one.source for name, one in exercises().items() if name not in EXERCISES and Path(one.source).is_file()],
        picture="results/exercise/mine/roofline.png" if has_a_roofline(EXERCISES) else [],
        lib=code("scripts/exercise.py"),
    output:
        report="results/exercise/REPORT.md",
    log:
        "logs/exercise.log",
    benchmark:
        "logs/exercise.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/exercise.py"


onsuccess:
    # A learner's verdict is the last on the terminal, below what Snakemake says of its jobs.
    if any(job.rule.name == "exercise" for job in workflow.dag.jobs):
        from minikernel.report.exercise_report import told

        for name in EXERCISES:
            folder = f"results/exercise/{name}"
            marks = read_object(f"{folder}/marks.json")
            print("", told(marks, f"{folder}/REPORT.md", config["language"]), sep="\n", file=sys.stderr)
        print(file=sys.stderr)
