"""The concept pages under docs/concepts: their figures and numbers, taken from records, data and a capture.

Nothing on those pages is typed that was measured: `softmax_facts`, `float_facts` and `compiler_facts` work the numbers
out, `figures` draws them, `pages` sets them into `templates/`. `python scripts/concept_pages.py` writes it all anew.
"""
