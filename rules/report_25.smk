# Stage 25, what a person reads: the report, the manifest, and one page that closes each phase.
# Needs: the captures, annotations, explorers and profiles of this run, the survey; stage 24's manifest and picture.
# Makes: results/25/{REPORT.md,manifest.json}, results/PHASE_24_REPORT.md, results/PHASE_25_REPORT.md.


rule report_25:
    """Interpret what the compiler did: what was fused and refused, whether it still computes the same, what it cost."""
    input:
        captures=CAPTURES,
        profiles=PROFILES,
        distributed=expand(rules.distributed.output.report, device=SURVEYED),
        pages=[*ANNOTATIONS, *EXPLORERS, *PROFILE_PAGES, rules.survey.output.survey],
        words="src/minicompile/templates/report_25.md",
        lib=modules_used_by("scripts/report_25.py"),
    output:
        report="results/25/REPORT.md",
        manifest="results/25/manifest.json",
    log:
        "logs/25/report_25.log",
    benchmark:
        "logs/25/report_25.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        seed=lookup(within=config, dpath="training/seed"),
    script:
        "../scripts/report_25.py"


rule phase_reports:
    """Close phases 24 and 25: what was asked, what was found, whether it is met."""
    input:
        training=rules.train.output.record,
        manifest_24=rules.manifest_24.output.manifest,
        roofline=rules.roofline.output.png,
        report_24=rules.report_24.output.report,
        manifest_25=rules.report_25.output.manifest,
        distributed=rules.report_25.input.distributed,
        words="src/minicompile/templates/phase_report.md",
        lib=modules_used_by("scripts/phase_reports.py"),
    output:
        phase_24="results/PHASE_24_REPORT.md",
        phase_25="results/PHASE_25_REPORT.md",
    log:
        "logs/phase_reports.log",
    benchmark:
        "logs/phase_reports.tsv"
    conda:
        "../envs/cpu.yaml"
    script:
        "../scripts/phase_reports.py"
