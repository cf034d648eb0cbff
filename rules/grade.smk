# A class marked: every student's exercises. Not part of `all`; `snakemake grade --config class=DIR` asks for it.
# Needs: DIR, with a folder in it for each student, which holds the files of exercises/. No training.
# Makes: results/grade/{grades.json,grades.csv,index.html}, and a file for each student below results/grade/marked; with
#   `grade: {timed: true}` results/grade/times.json too.

MARKED_ON = HERE if config["grade"]["timed"] else cpu_device()
GIVEN = {
    "seconds": config["grade"]["time_limit_seconds"],
    "memory_bytes": int(config["grade"]["memory_gigabytes"] * 1e9),
}
MARKED = refusing(
    lambda wildcards: [f"results/grade/marked/{student}.json" for student in students(str(config["class"]))]
)
SHARING = 4  # students whose kernels are proven on one GPU at the same time, as profiles/default allows
LONGEST = minutes(2 * len(graded()) * config["grade"]["time_limit_seconds"])


wildcard_constraints:
    student="[A-Za-z0-9_-]+",


localrules:
    grade,


rule grade_student:
    """Mark what one student of a class handed in, contained; it is marked again when the student hands in something else."""
    input:
        lib=code("scripts/grade_student.py"),
    output:
        row="results/grade/marked/{student}.json",
    log:
        "logs/grade/marked/{student}.log",
    benchmark:
        "logs/grade/marked/{student}.tsv"
    conda:
        environment(MARKED_ON)
    threads: 1 if is_cpu(MARKED_ON) else max(1, workflow.cores // SHARING)
    resources:
        gpu=0 if is_cpu(MARKED_ON) else 1,
        mem_mb=growing(4000),
        runtime=growing(LONGEST),
    params:
        folder=str(config["class"]),
        digest=lambda wildcards: refusing(digest)(students(str(config["class"]))[wildcards.student]),
        limits=GIVEN,
        device=MARKED_ON,
    script:
        "../scripts/grade_student.py"


rule time_class:
    """Time what a class has got right, one student after the other with the machine to itself; times decide no verdict."""
    input:
        rows=MARKED,
        lib=code("scripts/time_class.py"),
    output:
        times=update("results/grade/times.json"),
    log:
        "logs/grade/times.log",
    benchmark:
        "logs/grade/times.tsv"
    conda:
        environment(MARKED_ON)
    threads: workflow.cores
    resources:
        gpu=0 if is_cpu(MARKED_ON) else 1,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        folder=str(config["class"]),
        limits=GIVEN,
        device=MARKED_ON,
        bench=artefact("bench").params(config, {"device": MARKED_ON, "kernel": ""}),
    script:
        "../scripts/time_class.py"


rule grade:
    """Gather a class's marks: one row a student, one column an exercise, as a page, a table and JSON."""
    input:
        rows=MARKED,
        times="results/grade/times.json" if config["grade"]["timed"] else [],
        lib=code("scripts/grade.py"),
    output:
        grades="results/grade/grades.json",
        table="results/grade/grades.csv",
        page="results/grade/index.html",
    log:
        "logs/grade.log",
    benchmark:
        "logs/grade.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        folder=str(config["class"]),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/grade.py"
