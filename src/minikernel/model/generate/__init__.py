"""A whole text in one launch: token by token, the weights in the registers of a cluster of blocks.

It knows how to write on and how the next token is chosen. It does not know words, only tokens.
"""
