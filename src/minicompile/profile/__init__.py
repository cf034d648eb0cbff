"""Measures what torch.compile gains and costs: times of each mode, and where a compiled call's time goes."""
