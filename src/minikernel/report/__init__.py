"""Stage 24 in pictures and pages: from the artefacts of `proof` and `measure` to roofline, contest and report."""
