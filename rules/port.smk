# Stage 24, port: the checkpoint in PyTorch, proven layer by layer, with the lab's softmax swapped in.
# Needs: results/17/checkpoint.npz, results/17/vocab.json.
# Makes: results/24/{minigpt.safetensors,port.json,equivalence.json}, results/24/{device}/kernel_swap.json.


rule port:
    """Map every NumPy array onto its PyTorch parameter, byte for byte."""
    input:
        checkpoint=rules.export_checkpoint.output.checkpoint,
        description=rules.export_checkpoint.output.description,
        lib=code("scripts/port.py"),
    output:
        weights="results/24/minigpt.safetensors",
        report="results/24/port.json",
    log:
        "logs/24/port.log",
    benchmark:
        "logs/24/port.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/port.py"


rule equivalence:
    """Prove the port: every layer's output against NumPy's, in absolute terms and in ulps."""
    input:
        checkpoint=rules.export_checkpoint.output.checkpoint,
        weights=rules.port.output.weights,
        lib=code("scripts/equivalence.py"),
    output:
        report="results/24/equivalence.json",
    log:
        "logs/24/equivalence.log",
    benchmark:
        "logs/24/equivalence.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(3),
    params:
        equivalence=lookup(within=config, dpath="equivalence"),
    script:
        "../scripts/equivalence.py"


rule kernel_swap:
    """Predict the demo prompt's next word before and after the lab's kernel replaces F.softmax."""
    input:
        weights=rules.port.output.weights,
        vocabulary=rules.corpus.output.vocabulary,
        lexicon=LEXICON,
        equivalence=rules.equivalence.output.report,
        sources=sources("kernel_swap"),
    output:
        report="results/24/{device}/kernel_swap.json",
    log:
        "logs/24/{device}/kernel_swap.log",
    benchmark:
        "logs/24/{device}/kernel_swap.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(3),
    params:
        measuring=measuring("kernel_swap"),
        users_code=lambda wildcards: directives.limits_of_swapped(config, wildcards),
    script:
        "../scripts/kernel_swap.py"
