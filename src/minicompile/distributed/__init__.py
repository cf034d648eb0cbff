"""Measures four patterns of distributed training on real processes: their speed, and what they send and hold."""
