"""A learner's softmax, marked: right where, how many passes over memory, how fast.

It knows what each exercise asks, and the mistakes that people make in it. It does not know who handed it in, and marks
one learner's file at a time.
"""
