"""The lab's front door: one offline page of all stages, rules, files and reports, as they stand.

`account` reads what Snakemake says of the workflow, `states` finds out where each result comes from, `thumbnails` and
`reports` make pictures and texts small enough to carry, `render` writes the page. After showyourwork's picture of a
workflow "for people who do not read Snakemake". The page itself is plain HTML, CSS and JavaScript.
"""

from minilab.site.render import render_lab_page

__all__ = ["render_lab_page"]
