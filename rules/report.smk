# Stage 24, what a person reads: the roofline, the contest's picture, the manifest, the report.
# Needs: ceilings and bench of every device shown, and the headline GPU's head and contest, measured or restored; the proofs;
#   the port's reports.
# Makes: results/24/{roofline.png,roofline.svg,roofline.json,bandwidth.png,bandwidth.svg,ladder.png,ladder.svg,manifest.json,README.md,CONTEST.md}.

CONTEST = expand("results/24/{device}/contest.json", device=plan.headline_with("contest"))
HEAD = expand("results/24/{device}/head.json", device=plan.headline_with("head"))
LADDER = plan.with_ladder[:1]


rule roofline:
    """Draw every kernel against the measured limits of each device, and how near it comes to a copy."""
    input:
        ceilings=expand("results/24/{device}/ceilings.json", device=plan.devices),
        bench=expand("results/24/{device}/bench.json", device=plan.devices),
        head=HEAD,
        proofs=[
            f"results/24/{device}/proof/{kernel}.json"
            for device in plan.measured
            for kernel in plan.kernels_of(device)
        ],
        lib=code("scripts/roofline.py"),
    output:
        png=shown("results/24/roofline.png", "report", "roofline"),
        svg="results/24/roofline.svg",
        data="results/24/roofline.json",
    log:
        "logs/24/roofline.log",
    benchmark:
        "logs/24/roofline.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        headline=lookup(within=config, dpath="roofline/headline"),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/roofline.py"


rule ladder:
    """Draw what each of a CPU's rungs takes, and what it ran into: page faults, the exponential, bytes from memory."""
    input:
        bench=expand("results/24/{device}/bench.json", device=LADDER),
        allocation=expand("results/24/{device}/allocation.json", device=LADDER),
        lib=code("scripts/ladder.py"),
    output:
        png=shown("results/24/ladder.png", "report", "ladder"),
        svg="results/24/ladder.svg",
    log:
        "logs/24/ladder.log",
    benchmark:
        "logs/24/ladder.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        headline=lookup(within=config, dpath="roofline/headline/cpu"),
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/ladder.py"


rule bandwidth:
    """Draw each kernel's and each peer's share of a copy's bandwidth against the width of the row."""
    input:
        contest=expand("results/24/{device}/contest.json", device=plan.headline_gpu),
        lib=code("scripts/bandwidth.py"),
    output:
        png=shown("results/24/bandwidth.png", "report", "bandwidth"),
        svg="results/24/bandwidth.svg",
    log:
        "logs/24/bandwidth.log",
    benchmark:
        "logs/24/bandwidth.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/bandwidth.py"


rule manifest_24:
    """Write the experiment down: versions, GPU, each kernel at 512 rows, the port's verdict."""
    input:
        bench=expand("results/24/{device}/bench.json", device=plan.headline_gpu or plan.measured[-1]),
        autotune=expand("results/24/{device}/autotune.json", device=plan.headline_gpu),
        swap=expand("results/24/{device}/kernel_swap.json", device=plan.headline_gpu or plan.measured[-1]),
        equivalence=rules.equivalence.output.report,
        port=rules.port.output.report,
        lib=code("scripts/manifest_24.py"),
    output:
        manifest="results/24/manifest.json",
    log:
        "logs/24/manifest_24.log",
    benchmark:
        "logs/24/manifest_24.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        seed=lookup(within=config, dpath="training/seed"),
        kernels=sorted(plan.kernels_of((plan.headline_gpu or plan.measured)[-1])),
    script:
        "../scripts/manifest_24.py"


rule report_24:
    """Interpret the figures in words that change with them."""
    input:
        roofline=rules.roofline.output.data,
        picture=rules.roofline.output.png,
        contest=CONTEST,
        head=HEAD,
        bandwidth=rules.bandwidth.output.png if CONTEST else [],
        ladder=rules.ladder.output.png if LADDER else [],
        manifest=rules.manifest_24.output.manifest,
        ceilings=rules.roofline.input.ceilings,
        bench=expand("results/24/{device}/bench.json", device=plan.devices),
        allocation=expand("results/24/{device}/allocation.json", device=filter(is_cpu, plan.measured)),
        autotune=expand("results/24/{device}/autotune.json", device=plan.headline_gpu),
        proofs=rules.roofline.input.proofs,
        swap=expand("results/24/{device}/kernel_swap.json", device=plan.devices),
        training=rules.train.output.record,
        port=rules.port.output.report,
        equivalence=rules.equivalence.output.report,
        lib=code("scripts/report_24.py"),
    output:
        report=shown("results/24/README.md", "report", "kernels"),
        contest=shown("results/24/CONTEST.md", "report", "contest"),
    log:
        "logs/24/report_24.log",
    benchmark:
        "logs/24/report_24.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/report_24.py"
