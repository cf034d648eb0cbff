# Stage 25, annotation: the most interesting kernel of each capture explained; two captures compared.
# Needs: results/25/{model}/{device}/capture.json, notes/25.md if there is one; config's before and after.
# Makes: results/25/{model}/{device}/KERNEL_ANNOTATION.md, results/25/diff.{json,md}.


NOTES = Path("notes/25.md")  # a learner's own; read here, written by nobody
DIFF_ADVICE = (
    "diff_compiles compares two captures, and it is not said which; run `snakemake --cores 2 diff_compiles "
    "--config before=MODEL/DEVICE after=MODEL/DEVICE`, or give the paths of two capture.json."
)
ANNOTATIONS = [capture.replace("capture.json", "KERNEL_ANNOTATION.md") for capture in CAPTURES]


rule annotate:
    """Walk through the kernel that holds the softmax: what is fused, read, written, reduced and absent, line by line."""
    input:
        capture="results/25/{model}/{device}/capture.json",
        notes=[str(NOTES)] if NOTES.exists() else [],
        lib=code("scripts/annotate.py"),
    output:
        annotation=shown("results/25/{model}/{device}/KERNEL_ANNOTATION.md", "annotate", "annotation"),
    log:
        "logs/25/{model}/{device}/annotate.log",
    benchmark:
        "logs/25/{model}/{device}/annotate.tsv"
    wildcard_constraints:
        model=any_of(plan.captured),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/annotate.py"


rule diff_compiles:
    """Compare two captures: torch A and B, CPU and GPU, before and after an edit."""
    input:
        a=named("before", DIFF_ADVICE, "results/25/{}/capture.json"),
        b=named("after", DIFF_ADVICE, "results/25/{}/capture.json"),
        lib=code("scripts/diff_compiles.py"),
    output:
        data="results/25/diff.json",
        text="results/25/diff.md",
    log:
        "logs/25/diff_compiles.log",
    benchmark:
        "logs/25/diff_compiles.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/diff_compiles.py"
