"""Tries a compiled model: training steps in a copy of the process, or taken back, held against eager's.

It knows how to compare two runs and leave nothing behind. It does not know what the model is for, nor what to do when
it fails.
"""
