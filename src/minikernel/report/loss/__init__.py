"""Stage 27's picture and page: who computes the loss of a head, how fast, in how much memory, and who is right.

It knows how to word and draw what `measure.loss` and `proof.loss` found. It times nothing, and judges nobody.
"""
