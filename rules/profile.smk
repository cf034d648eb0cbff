# Stage 25, profile: eager against torch.compile's modes, the compiled call taken apart, its kernels on the roofline.
# Needs: results/24/{device}/ceilings.json; results/17/checkpoint.npz for MiniGPT; a C++ compiler for a CPU's profile.
# Makes: results/25/{model}/{device}/{profile_samples.json,profile.json,roofline.png,PROFILE.md}.

PROFILES = [f"results/25/{model}/{device}/profile.json" for model, device in plan.profiles]
PROFILE_PAGES = [path.replace("profile.json", name) for path in PROFILES for name in ("PROFILE.md", "roofline.png")]


rule profile:
    """Time a model eager and compiled in each mode, and take the compiled call apart: guards, wrapper, kernels."""
    input:
        checkpoint=of_minigpt("results/17/checkpoint.npz"),
        ceilings="results/24/{device}/ceilings.json",
        sources=sources("profile_samples"),
        schema="schemas/profile_samples.schema.yaml",
    output:
        samples="results/25/{model}/{device}/profile_samples.json",
    log:
        "logs/25/{model}/{device}/profile.log",
    benchmark:
        "logs/25/{model}/{device}/profile.tsv"
    wildcard_constraints:
        model=any_of(plan.profiled),
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(15),
    params:
        measuring=measuring("profile_samples"),
        users_code=limits(10),
    script:
        "../scripts/profile_compile.py"


rule profile_figures:
    """Conclude from a profile's samples and the code that was timed where a compiled call spends its time."""
    input:
        samples="results/25/{model}/{device}/profile_samples.json",
        lib=code("scripts/profile_figures.py"),
        schema="schemas/profile.schema.yaml",
    output:
        profile="results/25/{model}/{device}/profile.json",
    log:
        "logs/25/{model}/{device}/profile_figures.log",
    benchmark:
        "logs/25/{model}/{device}/profile_figures.tsv"
    wildcard_constraints:
        model=any_of(plan.profiled),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/profile_figures.py"


rule profile_report:
    """Draw a profile's kernels against the device's limits, and say what its figures mean."""
    input:
        profile="results/25/{model}/{device}/profile.json",
        lib=code("scripts/profile_report.py"),
    output:
        picture=shown("results/25/{model}/{device}/roofline.png", "profile", "profile_roofline"),
        report=shown("results/25/{model}/{device}/PROFILE.md", "profile", "profile"),
    log:
        "logs/25/{model}/{device}/profile_report.log",
    benchmark:
        "logs/25/{model}/{device}/profile_report.tsv"
    wildcard_constraints:
        model=any_of(plan.profiled),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/profile_report.py"
