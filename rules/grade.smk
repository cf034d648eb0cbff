# A class marked: every student's exercises. Not part of `all`; `snakemake grade --config class=DIR` asks for it.
# Needs: DIR, with a folder in it for each student, which holds the files of exercises/. No training.
# Makes: results/grade/{grades.json,grades.csv,index.html}, and a file for each student below results/grade/students.

ON_A_GPU = config["grade"]["timed"] and not is_cpu(HERE)


wildcard_constraints:
    student="[A-Za-z0-9_-]+",


localrules:
    grade,


rule grade_student:
    """Mark what one student of a class handed in, contained; it is marked again when the student hands in something else."""
    input:
        lib=code("scripts/grade_student.py"),
        marking=closure("src/minikernel/exercise/grade.py"),
    output:
        row="results/grade/students/{student}.json",
    log:
        "logs/grade/{student}.log",
    benchmark:
        "logs/grade/{student}.tsv"
    conda:
        environment(HERE if ON_A_GPU else cpu_device())
    threads: workflow.cores if config["grade"]["timed"] else 1
    resources:
        gpu=1 if ON_A_GPU else 0,
        mem_mb=growing(4000),
        runtime=growing(minutes(2 * len(graded()) * config["grade"]["time_limit_seconds"])),
    params:
        folder=str(config["class"]),
        digest=lambda wildcards: refusing(digest)(students(str(config["class"]))[wildcards.student]),
        limits=config["grade"],
        device=HERE if ON_A_GPU else cpu_device(),
        bench=artefact("bench").params(config, {"device": HERE, "kernel": ""}),
    script:
        "../scripts/grade_student.py"


rule grade:
    """Gather a class's marks: one row a student, one column an exercise, as a page, a table and JSON."""
    input:
        rows=lambda wildcards: expand(
            "results/grade/students/{student}.json", student=refusing(students)(str(config["class"]))
        ),
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
