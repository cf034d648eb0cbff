# Stage 25, capture: what torch.compile makes of each model, from its source to the lines of each kernel.
# Needs: results/17/checkpoint.npz and results/24/equivalence.json for the models that are MiniGPT; for GPUs that are not
#   here results/recorded/{device}/25/{model}/capture.json.xz, in git (rules/records.smk restores it).
# Makes: results/25/{model}/{device}/capture.json, the same as plain files, exported.pt2, kernel.cpp or kernel.py;
#   results/25/{model}/{device}/simulated_vs_real.json for a GPU that the simulated one stands in for.

TRITON_ONLY = ["minigpt_swapped"]  # the lab's Triton kernel in it has no CPU code
CAPTURED = [*config["capture"]["models"], *config["models"]]
CAPTURE_DEVICES = [*DEVICES, *([SIMULATED] if config["capture"]["simulated"] else [])]
CAPTURES = [
    f"results/25/{model}/{device}/capture.json"
    for model in CAPTURED
    for device in CAPTURE_DEVICES
    if has_capture(model, device)
]
STOOD_IN_FOR = SIMULATED.removeprefix("simulated-")
COMPARED = [
    f"results/25/{model}/{STOOD_IN_FOR}/simulated_vs_real.json"
    for model in CAPTURED
    if compares_with_simulated(config, model, STOOD_IN_FOR)
]


rule capture:
    """Compile a model, to C++ for a CPU or Triton for a GPU, in a fresh process, caches off, and keep all that is seen."""
    input:
        checkpoint=lambda wildcards: (
            rules.export_checkpoint.output.checkpoint if made_of_minigpt(wildcards.model) else []
        ),
        equivalence=lambda wildcards: (
            ancient(rules.equivalence.output.report) if made_of_minigpt(wildcards.model) else []
        ),
        sources=lambda wildcards: captured_sources(wildcards.model),
        reasons="src/minicompile/lowering/data/fusion_reasons.yaml",
        schema="schemas/capture.schema.yaml",
        lib=modules_used_by("scripts/capture.py"),
    output:
        capture="results/25/{model}/{device}/capture.json",
        fx_graph="results/25/{model}/{device}/fx_graph.py",
        post_grad="results/25/{model}/{device}/post_grad.py",
        ir_pre_fusion="results/25/{model}/{device}/ir_pre_fusion.txt",
        ir_post_fusion="results/25/{model}/{device}/ir_post_fusion.txt",
        output_code="results/25/{model}/{device}/output_code.py",
        exported="results/25/{model}/{device}/exported.pt2",
        kernel="results/25/{model}/{device}/kernel.cpp",
    log:
        "logs/25/{model}/{device}/capture.log",
    benchmark:
        "logs/25/{model}/{device}/capture.tsv"
    wildcard_constraints:
        model=any_of(model for model in CAPTURED if model not in TRITON_ONLY),
        device=any_of(device for device in MEASURED if is_cpu(device)),
    conda:
        lambda wildcards: "../envs/cpu.yaml" if wildcards.device == SIMULATED else environment(wildcards.device)
    threads: 1  # a compile is mostly one thread's work, whatever the number that the C++ is written for
    resources:
        gpu=lambda wildcards: 0 if wildcards.device == SIMULATED else gpus(wildcards),
        mem_mb=growing(4000),
        runtime=growing(5),
    params:
        measuring=lambda wildcards: capture_params(wildcards.model),
    script:
        "../scripts/capture.py"


use rule capture as capture_triton with:
    output:
        capture="results/25/{model}/{device}/capture.json",
        fx_graph="results/25/{model}/{device}/fx_graph.py",
        post_grad="results/25/{model}/{device}/post_grad.py",
        ir_pre_fusion="results/25/{model}/{device}/ir_pre_fusion.txt",
        ir_post_fusion="results/25/{model}/{device}/ir_post_fusion.txt",
        output_code="results/25/{model}/{device}/output_code.py",
        exported="results/25/{model}/{device}/exported.pt2",
        kernel="results/25/{model}/{device}/kernel.py",
    wildcard_constraints:
        model=any_of(CAPTURED),
        device=any_of([*(device for device in MEASURED if not is_cpu(device)), SIMULATED]),


rule simulated_vs_real:
    """Hold the kernels of the simulated GPU against those that a real one gets, on the machine that has it."""
    input:
        simulated=f"results/25/{{model}}/{SIMULATED}/capture.json",
        real="results/25/{model}/{device}/capture.json",
        sources=lambda wildcards: captured_sources(wildcards.model),
        schema="schemas/simulated_vs_real.schema.yaml",
        lib=modules_used_by("scripts/simulated_vs_real.py"),
    output:
        report="results/25/{model}/{device}/simulated_vs_real.json",
    log:
        "logs/25/{model}/{device}/simulated_vs_real.log",
    benchmark:
        "logs/25/{model}/{device}/simulated_vs_real.tsv"
    wildcard_constraints:
        model=any_of(CAPTURED),
        device=any_of(device for device in MEASURED if device == STOOD_IN_FOR),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        measuring=lambda wildcards: capture_params(wildcards.model),
    script:
        "../scripts/simulated_vs_real.py"
