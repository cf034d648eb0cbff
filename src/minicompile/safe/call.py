"""What a call of a model is: what it is given, what it returns and what it leaves behind.

This is what the smoketest hands over, reads and compares, what the report's `compared` names, and what the playbook
quotes.
"""

GIVEN = """
A call is given its arguments as the caller hands them over: containers of the same classes, tensors with their strides,
expansion, offset and `requires_grad`, in memory that they share as the caller's do, with one another and with the model
(`minicompile.state.batches.copied_batch`).
"""

# What it returns and what it leaves behind: the code of each element, and what it says
ELEMENTS = {
    "structure": "the classes, keys and texts of what it returns, and which object it is: one of the batch's, the "
    "model's, or another that it returns",
    "output": "the numbers that it returns, at any depth, with shapes and dtypes",
    "strides": "the strides of the tensors that it returns or keeps, along dimensions of several elements",
    "requires_grad": "whether the tensors that it returns or keeps can be differentiated, and are leaves",
    "sharing": "whose memory the tensors that it returns or keeps lie in: another's of them, the batch's, the model's",
    "loss": "the loss",
    "gradient": "the gradients of the model's parameters, and of every other leaf that it can get at: in the batch, in "
    "an attribute, in a global",
    "batch": "what is in the arguments afterwards: memory of tensors and between their elements, and contents of "
    "containers and objects",
    "buffer": "the model's buffers",
    "parameter": "the model's parameters, which a forward and a backward pass leave alone, or write as eager does",
    "attribute": "attributes and containers of the model and its parts, of objects that they hold, and of their "
    "classes; variables of closures, and the globals that they name; torch's settings: autocast, grad mode, defaults",
    "random": "the state of every generator of random numbers",
}

# Those of which eager itself may leave something else each time: the hour of a call, say
MAY_VARY = ("attribute", "batch", "structure", "output", "loss", "gradient")
