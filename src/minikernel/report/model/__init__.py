"""Stage 26's picture and pages: the whole model in one kernel, against what torch and its compiler make of it.

It knows how to word and draw what `measure.model` found. It times nothing, and knows no kernel.
"""
