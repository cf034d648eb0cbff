# Stage 24, kernels: each softmax kernel proven, tuned and timed on each device that is here.
# Needs: results/24/equivalence.json to time (no kernel is timed for a port that is not proven); nothing to prove.
# Makes: results/24/{device}/{proof/{kernel},ceilings,allocation,autotune,bench/{kernel},bench,head,contest}.json;
#   by name alone results/24/{device}/dispatch_table.json, which
#   src/minikernel/ops/dispatch/tables/ holds for the devices that were tuned.

TIMED_ON_CPU = plan.timed_kernels(cpu_device())
SOURCES_ON_CPU = lambda wildcards: directives.sources_by_kernel(config, TIMED_ON_CPU, wildcards)


rule prove:
    """Hold one kernel against float64 on adversarial rows; without a GPU, interpret it or compile it.

    A user's kernel runs in a process of its own, and one that fails is left out of what follows.
    """
    input:
        sources=sources("proof"),
    output:
        report="results/24/{device}/proof/{kernel}.json",
    log:
        "logs/24/{device}/prove/{kernel}.log",
    benchmark:
        "logs/24/{device}/prove/{kernel}.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(lambda wildcards: minutes(directives.time_limit(config, "proof", wildcards.kernel) or 60)),
    params:
        measuring=measuring("proof"),
        time_limit_seconds=lambda wildcards: directives.time_limit(config, "proof", wildcards.kernel),
        shapes=lambda wildcards: directives.users_shapes(config, wildcards.device, wildcards.kernel),
    script:
        "../scripts/prove.py"


rule ceilings:
    """Measure the device's own limits: copy and cache bandwidth, arithmetic; a GPU's latency, and what jobs beside do."""
    input:
        equivalence=ancient(PROVEN),
        sources=sources("ceilings"),
    output:
        ceilings="results/24/{device}/ceilings.json",
    log:
        "logs/24/{device}/ceilings.log",
    benchmark:
        "logs/24/{device}/ceilings.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(8000),
        runtime=growing(3),
    script:
        "../scripts/ceilings.py"


rule allocation:
    """Measure what calls run into on a CPU: page faults, the exponential's cycles, bytes from memory."""
    input:
        equivalence=ancient(PROVEN),
        sources=sources("allocation"),
        schema="schemas/allocation.schema.yaml",
    output:
        allocation="results/24/{device}/allocation.json",
    log:
        "logs/24/{device}/allocation.log",
    benchmark:
        "logs/24/{device}/allocation.tsv"
    wildcard_constraints:
        device=any_of(filter(is_cpu, plan.measured)),
    conda:
        "../envs/cpu.yaml"
    threads: workflow.cores
    resources:
        mem_mb=growing(2000),
        runtime=growing(3),
    params:
        measuring=measuring("allocation"),
    script:
        "../scripts/allocation.py"


rule autotune:
    """Search the Triton kernel's configurations on a GPU: the fastest at each shape, and whether it beats CUDA C."""
    input:
        equivalence=ancient(PROVEN),
        proof=f"results/24/{{device}}/proof/{TUNED_KERNEL}.json",
        sources=sources("autotune"),
    output:
        choice="results/24/{device}/autotune.json",
    log:
        "logs/24/{device}/autotune.log",
    benchmark:
        "logs/24/{device}/autotune.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(8000),
        runtime=growing(minutes(config["autotune"]["time_limit_seconds"])),
    params:
        measuring=measuring("autotune"),
    script:
        "../scripts/autotune.py"


rule dispatch_table:
    """Write the table by which `minikernel.softmax` chooses a kernel on a GPU, from what tuning found. Not part of `all`."""
    input:
        tuning="results/24/{device}/autotune.json",
        lib=code("scripts/dispatch_table.py"),
    output:
        table="results/24/{device}/dispatch_table.json",
    log:
        "logs/24/{device}/dispatch_table.log",
    benchmark:
        "logs/24/{device}/dispatch_table.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/dispatch_table.py"


rule bench_kernel:
    """Time one kernel on a GPU, interleaved with F.softmax and with a copy, in a process of its own."""
    input:
        equivalence=ancient(PROVEN),
        proof="results/24/{device}/proof/{kernel}.json",
        choice=lambda wildcards: (
            f"results/24/{wildcards.device}/autotune.json" if wildcards.kernel == TUNED_KERNEL else []
        ),
        sources=sources("bench"),
    output:
        rows="results/24/{device}/bench/{kernel}.json",
    log:
        "logs/24/{device}/bench/{kernel}.log",
    benchmark:
        "logs/24/{device}/bench/{kernel}.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
        kernel=any_of(kernel for kernel in timed_kernels if kernel not in users_kernels),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(8000),
        runtime=growing(3),
    params:
        measuring=measuring("bench"),
    script:
        "../scripts/bench_kernel.py"


rule bench_on_cpu:
    """Time every kernel and reference of a CPU in one process, in turn, beside one copy."""
    input:
        equivalence=ancient(PROVEN),
        proofs=expand("results/24/{{device}}/proof/{kernel}.json", kernel=TIMED_ON_CPU),
        sources=lambda wildcards: sorted(
            {path for paths in SOURCES_ON_CPU(wildcards).values() for path in paths},
        ),
    output:
        rows=expand("results/24/{{device}}/bench/{kernel}.json", kernel=TIMED_ON_CPU),
    log:
        "logs/24/{device}/bench_on_cpu.log",
    benchmark:
        "logs/24/{device}/bench_on_cpu.tsv"
    wildcard_constraints:
        device=any_of(filter(is_cpu, plan.measured)),
    conda:
        "../envs/cpu.yaml"
    threads: workflow.cores
    resources:
        mem_mb=growing(8000),
        runtime=growing(10),
    params:
        measuring=lambda wildcards: {
            kernel: in_order(artefact("bench").params(config, {**wildcards, "kernel": kernel}))
            for kernel in TIMED_ON_CPU
        },
        sources=SOURCES_ON_CPU,
    script:
        "../scripts/bench_on_cpu.py"


rule bench_users_kernel:
    """Time a kernel of the user's own, judged from outside: each timed call's result is looked at too."""
    input:
        equivalence=ancient(PROVEN),
        proof="results/24/{device}/proof/{kernel}.json",
        sources=sources("bench"),
    output:
        rows="results/24/{device}/bench/{kernel}.json",
    log:
        "logs/24/{device}/bench/{kernel}.log",
    benchmark:
        "logs/24/{device}/bench/{kernel}.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
        kernel=any_of(users_kernels),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(minutes(config["bench"]["time_limit_seconds"])),
    params:
        measuring=measuring("bench"),
        time_limit_seconds=lookup(within=config, dpath="bench/time_limit_seconds"),
    script:
        "../scripts/bench_users_kernel.py"


rule bench:
    """Gather the rows of all kernels of one device, and say which of the user's are left out."""
    input:
        proofs=lambda wildcards: expand(
            "results/24/{device}/proof/{kernel}.json",
            device=wildcards.device,
            kernel=plan.kernels_of(wildcards.device),
        ),
        jobs=lambda wildcards: expand(
            "results/24/{device}/bench/{kernel}.json",
            device=wildcards.device,
            kernel=plan.timed_kernels(wildcards.device),
        ),
        schema="schemas/bench.schema.yaml",
    output:
        bench="results/24/{device}/bench.json",
    log:
        "logs/24/{device}/bench.log",
    benchmark:
        "logs/24/{device}/bench.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/bench.py"


rule head:
    """Time the language-model head, softmax of a linear layer, in one kernel and in two, at several numbers of rows."""
    input:
        equivalence=ancient(PROVEN),
        sources=sources("head"),
    output:
        head="results/24/{device}/head.json",
    log:
        "logs/24/{device}/head.log",
    benchmark:
        "logs/24/{device}/head.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: timing_cores
    resources:
        gpu=timing_gpus,
        mem_mb=growing(16000),
        runtime=growing(minutes(config["head"]["time_limit_seconds"])),
    params:
        measuring=measuring("head"),
    script:
        "../scripts/head.py"


rule contest:
    """Time every kernel of ours and every installed peer in one process, forward and backward, at every shape."""
    input:
        proofs=lambda wildcards: expand(rules.prove.output.report, device=wildcards.device, kernel=OURS),
        choice="results/24/{device}/autotune.json",
        sources=sources("contest"),
    output:
        contest="results/24/{device}/contest.json",
    log:
        "logs/24/{device}/contest.log",
    benchmark:
        "logs/24/{device}/contest.tsv"
    wildcard_constraints:
        device=any_of(device for device in plan.measured if not is_cpu(device)),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(16000),
        runtime=growing(
            minutes(config["contest"]["time_limit_seconds"] + 2 * config["contest"]["max_autotune_seconds"])
        ),
    params:
        measuring=measuring("contest"),
    script:
        "../scripts/contest.py"
