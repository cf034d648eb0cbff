"""The lab's front door: one offline page of all stages, rules, files and reports, as they stand.

It knows what Snakemake says of the workflow, and where each file comes from. It makes none of these files, and does not
know what is in them, but for reports and pictures that it shows. The idea is from showyourwork, which shows a workflow
to people who do not read Snakemake.
"""
