"""A learner's softmax, marked: right where, how many passes over memory, how fast."""
