"""torch.compile made safe: compile and prove, or stay eager and say why."""
