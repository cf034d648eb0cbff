# Stage 25, capture: what torch.compile makes of each model, from its source to the lines of each kernel.
# Needs: results/17/checkpoint.npz and results/24/equivalence.json for the models that are MiniGPT; for GPUs that are not
#   here results/recorded/{device}/25/{model}/watched.json.xz, in git (rules/records.smk restores it).
# Makes: results/25/{model}/{device}/watched.json, with exported.pt2 beside it where torch.export takes the model;
#   capture.json, concluded from it; the same as plain files, kernel.cpp or kernel.py;
#   results/25/{model}/{device}/simulated_vs_real.json for a GPU that the simulated one stands in for.

CAPTURES = [f"results/25/{model}/{device}/capture.json" for model, device in plan.captures]
KERNELS = [f"results/25/{model}/{device}/kernel.{'cpp' if is_cpu(device) else 'py'}" for model, device in plan.captures]
COMPARED = [f"results/25/{model}/{SIMULATED_FOR}/simulated_vs_real.json" for model in plan.compared_with_simulated]


rule watch:
    """Compile a model, to C++ for a CPU or Triton for a GPU, in a fresh process, caches off, and keep all that is seen."""
    input:
        checkpoint=of_minigpt("results/17/checkpoint.npz"),
        equivalence=of_minigpt(ancient(PROVEN)),
        sources=sources("watched"),
        schema="schemas/watched.schema.yaml",
    output:
        watched="results/25/{model}/{device}/watched.json",
    log:
        "logs/25/{model}/{device}/watch.log",
    benchmark:
        "logs/25/{model}/{device}/watch.tsv"
    wildcard_constraints:
        model=any_of(model for model in plan.captured if model not in TRITON_ONLY),
        device=any_of(device for device in plan.measured if is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: 1  # a compile is mostly one thread's work, whatever the number that the C++ is written for
    resources:
        gpu=gpus,
        mem_mb=growing(4000),
        runtime=growing(5),
    params:
        measuring=measuring("watched"),
        users_code=limits(1),
    script:
        "../scripts/watch.py"


use rule watch as watch_triton with:
    wildcard_constraints:
        model=any_of(plan.captured),
        device=any_of([*(device for device in plan.measured if not is_cpu(device)), SIMULATED]),


rule capture:
    """Conclude from a watched compile what became of each node, and which lines belong together, without torch."""
    input:
        watched="results/25/{model}/{device}/watched.json",
        lib=code("scripts/capture.py"),
        schema="schemas/capture.schema.yaml",
    output:
        capture="results/25/{model}/{device}/capture.json",
    log:
        "logs/25/{model}/{device}/capture.log",
    benchmark:
        "logs/25/{model}/{device}/capture.tsv"
    wildcard_constraints:
        model=any_of(plan.captured),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/capture.py"


rule plain_files:
    """Write a capture's texts as plain files, under the names that dumps of torch.compile have."""
    input:
        capture="results/25/{model}/{device}/capture.json",
        lib=code("scripts/plain_files.py"),
    output:
        fx_graph="results/25/{model}/{device}/fx_graph.py",
        post_grad="results/25/{model}/{device}/post_grad.py",
        ir_pre_fusion="results/25/{model}/{device}/ir_pre_fusion.txt",
        ir_post_fusion="results/25/{model}/{device}/ir_post_fusion.txt",
        output_code="results/25/{model}/{device}/output_code.py",
        kernel="results/25/{model}/{device}/kernel.cpp",
    log:
        "logs/25/{model}/{device}/plain_files.log",
    benchmark:
        "logs/25/{model}/{device}/plain_files.tsv"
    wildcard_constraints:
        device="cpu-[a-z0-9-]*",
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/plain_files.py"


use rule plain_files as plain_files_triton with:
    output:
        fx_graph="results/25/{model}/{device}/fx_graph.py",
        post_grad="results/25/{model}/{device}/post_grad.py",
        ir_pre_fusion="results/25/{model}/{device}/ir_pre_fusion.txt",
        ir_post_fusion="results/25/{model}/{device}/ir_post_fusion.txt",
        output_code="results/25/{model}/{device}/output_code.py",
        kernel="results/25/{model}/{device}/kernel.py",
    wildcard_constraints:
        device="(?!cpu-)[a-z0-9][a-z0-9-]*",


rule watch_simulated:
    """Compile a model for the simulated GPU on the machine that has a real one, with what a clock decided there."""
    input:
        checkpoint=of_minigpt("results/17/checkpoint.npz"),
        real="results/25/{model}/{device}/watched.json",
        sources=sources("watched_simulated"),
        schema="schemas/watched.schema.yaml",
    output:
        simulated="results/25/{model}/{device}/watched_simulated.json",
    log:
        "logs/25/{model}/{device}/watch_simulated.log",
    benchmark:
        "logs/25/{model}/{device}/watch_simulated.tsv"
    wildcard_constraints:
        model=any_of(plan.captured),
        device=any_of(device for device in plan.measured if device == SIMULATED_FOR),
    conda:
        "../envs/gpu.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(5),
    params:
        measuring=measuring("watched_simulated"),
        users_code=limits(1),
    script:
        "../scripts/watch_simulated.py"


rule simulated_vs_real:
    """Hold the kernels of the simulated GPU against those that a real one got."""
    input:
        simulated="results/25/{model}/{device}/watched_simulated.json",
        real="results/25/{model}/{device}/watched.json",
        lib=code("scripts/simulated_vs_real.py"),
        schema="schemas/simulated_vs_real.schema.yaml",
    output:
        report="results/25/{model}/{device}/simulated_vs_real.json",
    log:
        "logs/25/{model}/{device}/simulated_vs_real.log",
    benchmark:
        "logs/25/{model}/{device}/simulated_vs_real.tsv"
    wildcard_constraints:
        model=any_of(plan.captured),
        device=SIMULATED_FOR,
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/simulated_vs_real.py"
