"""The lowering captured: what torch.compile makes of a model, from its source to each line of each kernel."""
