"""The lab's front door: one offline page of all stages, rules, files and reports, as they stand.

`ask_snakemake` runs Snakemake's own questions, `account` reads its answer into jobs, `states` finds out where each
result comes from, `contents` makes captions, pictures and reports fit into a page, `views` collects what each part of
the page shows, `render` writes it, and `rule_graph` draws the graph of the rules. The idea is from showyourwork,
which shows a workflow to people who do not read Snakemake. The page itself is plain HTML, CSS and JavaScript.
"""

from minilab.site.render import render_lab_page

__all__ = ["render_lab_page"]
