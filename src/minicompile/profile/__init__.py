"""What torch.compile gains and costs: times, the compiled call taken apart, its kernels on the roofline."""
