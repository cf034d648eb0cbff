# Stage 25, the explorer: each capture as one offline page, and C++ beside Triton.
# Needs: results/25/{model}/{device}/capture.json, and profile.json where there is one; rules/capture.smk and
#   rules/profile.smk, which list what is captured and what is profiled.
# Makes: results/25/{model}/{device}/explorer.html, results/25/{model}/explorer.html.

IN_BOTH_LANGUAGES = [model for model in plan.captured if plan.captured_twice(model)]  # as C++ and as Triton
EXPLORERS = [
    *(capture.replace("capture.json", "explorer.html") for capture in CAPTURES),
    *(f"results/25/{model}/explorer.html" for model in IN_BOTH_LANGUAGES),
]


rule explorer:
    """Show a capture line by line, with what belongs to each line and why, in one file that works offline."""
    input:
        captures="results/25/{model}/{device}/capture.json",
        profiles=lambda wildcards: plan.profiles_beside(wildcards.model, [wildcards.device]),
        lib=code("scripts/explorer.py"),
    output:
        page="results/25/{model}/{device}/explorer.html",
    log:
        "logs/25/{model}/{device}/explorer.log",
    benchmark:
        "logs/25/{model}/{device}/explorer.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/explorer.py"


rule explorer_side_by_side:
    """Show what the same model became in C++ and in Triton, on one page."""
    input:
        captures=lambda wildcards: [
            f"results/25/{wildcards.model}/{device}/capture.json" for device in plan.captured_twice(wildcards.model)
        ],
        profiles=lambda wildcards: plan.profiles_beside(wildcards.model, plan.captured_twice(wildcards.model)),
        lib=code("scripts/explorer.py"),
    output:
        page="results/25/{model}/explorer.html",
    log:
        "logs/25/{model}/explorer.log",
    benchmark:
        "logs/25/{model}/explorer.tsv"
    wildcard_constraints:
        model=any_of(IN_BOTH_LANGUAGES),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/explorer.py"
