# Stage 25, compiling safely: is each captured model's compile healthy here, and does a whole training run stay the same.
# Needs: results/17/{checkpoint.npz,corpus.txt,vocab.json,training.json}; a C++ compiler on a CPU; config.yaml's compile.
# Makes: results/25/{model}/{device}/compile_health.json, results/25/minigpt/{device}/training.{json,png}.

HEALTH = [f"results/25/{model}/{device}/compile_health.json" for model, device in plan.health]
PORT_TRAININGS = [f"results/25/minigpt/{device}/training.json" for device in plan.port_trainings]
TRAINING_PICTURES = [path.replace(".json", ".png") for path in PORT_TRAININGS]


rule compile_health:
    """Put a captured model through maybe_compile: does it compile, compute what eager does, and at what price."""
    input:
        checkpoint=of_minigpt("results/17/checkpoint.npz"),
        sources=sources("compile_health"),
        schema="schemas/compile_health.schema.yaml",
    output:
        health="results/25/{model}/{device}/compile_health.json",
    log:
        "logs/25/{model}/{device}/compile_health.log",
    benchmark:
        "logs/25/{model}/{device}/compile_health.tsv"
    wildcard_constraints:
        model=any_of(plan.captured),
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: lambda wildcards: 1 if is_cpu(wildcards.device) else workflow.cores  # a GPU's host must have no other work
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(minutes(config["compile"]["time_limit_seconds"] or 1800)),
    params:
        measuring=measuring("compile_health"),
        users_code=limits(3),
    script:
        "../scripts/compile_health.py"


rule train_port:
    """Train the PyTorch port as the NumPy model was trained, eager and compiled in turn, from the same weights."""
    input:
        corpus=rules.corpus.output.corpus,
        vocabulary=rules.corpus.output.vocabulary,
        numpy=rules.train.output.record,
        sources=sources("port_training"),
        schema="schemas/port_training.schema.yaml",
    output:
        training="results/25/minigpt/{device}/training.json",
    log:
        "logs/25/minigpt/{device}/train_port.log",
    benchmark:
        "logs/25/minigpt/{device}/train_port.tsv"
    wildcard_constraints:
        device=any_of(plan.measured),
    conda:
        lambda wildcards: environment(wildcards.device)
    threads: lambda wildcards: config["training"]["threads"] if is_cpu(wildcards.device) else workflow.cores
    resources:
        gpu=gpus,
        mem_mb=growing(8000),
        runtime=growing(minutes(config["compile"]["time_limit_seconds"] or 1800)),
    params:
        measuring=measuring("port_training"),
    script:
        "../scripts/train_port.py"


rule training_picture:
    """Draw both curves of the loss, how far they are apart, and what the compile cost and gained."""
    input:
        training="results/25/minigpt/{device}/training.json",
        lib=code("scripts/training_picture.py"),
    output:
        picture=shown("results/25/minigpt/{device}/training.png", "compile", "port_training"),
    log:
        "logs/25/minigpt/{device}/training_picture.log",
    benchmark:
        "logs/25/minigpt/{device}/training_picture.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/training_picture.py"
