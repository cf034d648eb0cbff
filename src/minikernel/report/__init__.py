"""Stage 24 in pictures and pages: from the artefacts of `proof` and `measure` to roofline, contest and report.

It knows how to word and draw figures that artefacts hold. It measures nothing, and runs no kernel.
"""
