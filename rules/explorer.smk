# Stage 25, the explorer: each capture as one offline page, and C++ beside Triton.
# Needs: results/25/{model}/{device}/capture.json, and profile.json where there is one; rules/capture.smk and
#   rules/profile.smk, which list what is captured and what is profiled.
# Makes: results/25/{model}/{device}/explorer.html, results/25/{model}/explorer.html.

EXPLORER_PAGE = sorted(
    str(path) for folder in ("src/minicompile/explain/explorer/page", "src/minilab/page") for path in Path(folder).iterdir()
)
CAPTURED_BESIDE = [device for device in CAPTURE_DEVICES if not is_cpu(device)]  # with Triton, beside the CPU's C++


SEEN_TWICE = [model for model in CAPTURED if captured_twice(model)]
EXPLORERS = [
    *(capture.replace("capture.json", "explorer.html") for capture in CAPTURES),
    *(f"results/25/{model}/explorer.html" for model in SEEN_TWICE),
]


rule explorer:
    """Show a capture line by line, with what belongs to each line and why, in one file that works offline."""
    input:
        captures="results/25/{model}/{device}/capture.json",
        words=words_25("explorer"),
        profiles=lambda wildcards: profiles_beside([f"results/25/{wildcards.model}/{wildcards.device}/capture.json"]),
        page=EXPLORER_PAGE,
        lib=modules_used_by("scripts/explorer.py"),
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
        captures=lambda wildcards: captured_twice(wildcards.model),
        words=words_25("explorer"),
        profiles=lambda wildcards: profiles_beside(captured_twice(wildcards.model)),
        page=EXPLORER_PAGE,
        lib=modules_used_by("scripts/explorer.py"),
    output:
        page="results/25/{model}/explorer.html",
    log:
        "logs/25/{model}/explorer.log",
    benchmark:
        "logs/25/{model}/explorer.tsv"
    wildcard_constraints:
        model=any_of(SEEN_TWICE),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/explorer.py"
