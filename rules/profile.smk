# Stage 25, profile: eager against torch.compile's modes, the compiled call taken apart, its kernels on the roofline.
# Needs: results/24/{device}/ceilings.json; results/17/checkpoint.npz for MiniGPT; a C++ compiler for a CPU's profile.
# Makes: results/25/{model}/{device}/{profile.json,roofline.png,PROFILE.md}.

PROFILED = ["tiny_head", "minigpt"]
# What measures, and what is measured; what draws and reports does not decide the figures.
PROFILE_SOURCES = [
    "src/minicompile/safe/compile_benchmark.py",
    "src/minicompile/profile/data/profile_operations.yaml",
    "src/minicompile/models.py",
    *sorted(str(path) for path in Path("src/minicompile/profile").glob("*.py")),
    "src/minimodel/torch_minigpt.py",
]
PROFILE_DEVICES = [
    device
    for device in DEVICES
    if (device in MEASURED and (not is_cpu(device) or has_cpp_compiler()))
    or all(Path(record_25(device, model, "profile")).exists() for model in PROFILED)
]
PROFILES = expand("results/25/{model}/{device}/profile.json", model=PROFILED, device=PROFILE_DEVICES)
PROFILE_PAGES = [path.replace("profile.json", name) for path in PROFILES for name in ("PROFILE.md", "roofline.png")]


rule profile:
    """Time a model eager and compiled in each mode, and take the compiled call apart: guards, wrapper, kernels."""
    input:
        checkpoint=lambda wildcards: (
            [] if wildcards.model == "tiny_head" else rules.export_checkpoint.output.checkpoint
        ),
        ceilings="results/24/{device}/ceilings.json",
        sources=PROFILE_SOURCES,
        schema="schemas/profile.schema.yaml",
        lib=modules_used_by("scripts/profile_compile.py"),
    output:
        profile="results/25/{model}/{device}/profile.json",
    log:
        "logs/25/{model}/{device}/profile.log",
    benchmark:
        "logs/25/{model}/{device}/profile.tsv"
    wildcard_constraints:
        model=any_of(PROFILED),
        device=any_of(MEASURED),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(15),
    params:
        measuring=lambda wildcards: profile_params(config, wildcards.model, wildcards.device),
    script:
        "../scripts/profile_compile.py"


rule profile_report:
    """Draw a profile's kernels against the device's limits, and say what its figures mean."""
    input:
        profile="results/25/{model}/{device}/profile.json",
        words=[*words_25("profile", templates=["profile_25"]), words_of("minikernel.report", "figures")],
        lib=modules_used_by("scripts/profile_report.py"),
    output:
        picture=shown("results/25/{model}/{device}/roofline.png", "profile", "profile_roofline"),
        report=shown("results/25/{model}/{device}/PROFILE.md", "profile", "profile"),
    log:
        "logs/25/{model}/{device}/profile_report.log",
    benchmark:
        "logs/25/{model}/{device}/profile_report.tsv"
    wildcard_constraints:
        model=any_of(PROFILED),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/profile_report.py"
