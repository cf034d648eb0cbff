# Stage 17: a corpus from the grammar, a NumPy MiniGPT trained on it, its checkpoint.
# Needs: the lexicon and the grammar in src/minimodel/data/.
# Makes: results/17/{corpus.txt,vocab.json,training.npz,training.json,loss.png,checkpoint.npz,checkpoint.json}.

LEXICON = "src/minimodel/data/lexicon.yaml"
GRAMMAR = "src/minimodel/data/grammar.yaml"


rule corpus:
    """Sample sentences from the weighted grammar and collect their vocabulary."""
    input:
        lexicon=LEXICON,
        grammar=GRAMMAR,
        lib=code("scripts/corpus.py"),
    output:
        corpus="results/17/corpus.txt",
        vocabulary="results/17/vocab.json",
    log:
        "logs/17/corpus.log",
    benchmark:
        "logs/17/corpus.tsv"
    priority: 1  # what else is timed waits for the checkpoint
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(10),
    params:
        corpus=lookup(within=config, dpath="corpus"),
    script:
        "../scripts/corpus.py"


rule train:
    """Train the NumPy MiniGPT by hand-written backpropagation, against the grammar's own entropy."""
    input:
        corpus=rules.corpus.output.corpus,
        vocabulary=rules.corpus.output.vocabulary,
        lexicon=LEXICON,
        grammar=GRAMMAR,
        lib=code("scripts/train.py"),
    output:
        weights="results/17/training.npz",
        record="results/17/training.json",
    log:
        "logs/17/train.log",
    benchmark:
        "logs/17/train.tsv"
    priority: 1  # what else is timed waits for the checkpoint
    conda:
        "../envs/cpu.yaml"
    threads: config["training"]["threads"]
    resources:
        mem_mb=growing(1000),
        runtime=growing(15),
    params:
        model=lookup(within=config, dpath="model"),
        training=lookup(within=config, dpath="training"),
        corpus=lookup(within=config, dpath="corpus"),
    script:
        "../scripts/train.py"


rule loss_plot:
    """Draw the training's losses beside the grammar's entropy, which no model can go below."""
    input:
        record=rules.train.output.record,
        lib=code("scripts/loss_plot.py"),
    output:
        picture=shown("results/17/loss.png", "checkpoint", "loss"),
    log:
        "logs/17/loss_plot.log",
    benchmark:
        "logs/17/loss_plot.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    params:
        language=lookup(within=config, dpath="language"),
    script:
        "../scripts/loss_plot.py"


rule export_checkpoint:
    """Write the trained arrays, their names, shapes and digest as the checkpoint that all else loads."""
    input:
        weights=rules.train.output.weights,
        vocabulary=rules.corpus.output.vocabulary,
        lib=code("scripts/export_checkpoint.py"),
    output:
        checkpoint="results/17/checkpoint.npz",
        description="results/17/checkpoint.json",
    log:
        "logs/17/export_checkpoint.log",
    benchmark:
        "logs/17/export_checkpoint.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(3),
    script:
        "../scripts/export_checkpoint.py"
