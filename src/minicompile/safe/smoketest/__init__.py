"""Tries a compiled model: training steps in a copy of the process, or taken back, held against eager's."""
