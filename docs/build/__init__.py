"""The builders of what is generated under docs/, run by `python -m docs.build` from the project's root.

The modules in `facts` work out the figures that `concept_pages` sets into `templates/` and `figures` draws; `playbook`
fills in the generated parts of docs/torch_compile.md and its pages, `readme` those of README.md; `config_page` writes
docs/config.md, `who_is_right` docs/who_is_right.md, `what_if_pages` docs/what_if, `over_time` docs/over_time.md;
`cpu_ladder` keeps what the page on the CPU's ladder quotes of a run here.
docs/faults.md comes from the tests in tests/faults. No number on those pages is typed by hand.
"""
