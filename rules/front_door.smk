# The front door: the graph of the rules, and one page that leads to every stage, rule, file and report.
# Needs: everything that a plain `snakemake` builds; what Snakemake says of it; the captions in report/.
# Makes: results/dag.svg, results/dag.mmd, results/lab.html.

FRONT_DOOR = ["results/dag.svg", "results/dag.mmd", "results/lab.html"]
RULE_FILES = ["Snakefile", *sorted(map(str, Path("rules").glob("*.smk")))]


rule dag:
    """Draw the graph of the rules, as Snakemake itself prints it."""
    input:
        rules=RULE_FILES,
        lib=code("scripts/dag.py"),
    output:
        svg=shown("results/dag.svg", "front_door", "dag"),
        mermaid="results/dag.mmd",
    log:
        "logs/dag.log",
    benchmark:
        "logs/dag.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        rules=lambda wildcards: described(workflow),
        config=config,
    script:
        "../scripts/dag.py"


rule lab_page:
    """Lead the reader in: every stage, rule, file and report on one page that works offline."""
    input:
        results=[path for path in rules.all.input if path not in FRONT_DOOR],
        graph=rules.dag.output.svg,
        rules=RULE_FILES,
        docs=[*map(str, sorted(Path("docs").glob("concepts/*.md"))), "docs/README.md", "exercises/README.md"],
        captions=sorted(str(path) for path in Path("report").rglob("*.rst")),
        lib=code("scripts/lab_page.py"),
        words=sorted(str(path) for path in Path("src/minilab/locale").glob(f"{config['language']}/*.yaml")),
    output:
        page="results/lab.html",
    log:
        "logs/lab_page.log",
    benchmark:
        "logs/lab_page.tsv"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=growing(5),
    params:
        rules=lambda wildcards: described(workflow),
        config=config,
    script:
        "../scripts/lab_page.py"
