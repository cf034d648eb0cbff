"""Distributed training measured: four patterns on real processes, what they send and hold, and the survey of them."""
