"""A user's kernel judged from outside: its process computes in shared memory; inputs and verdicts are the judge's.

It knows how to prove and time code that it does not believe, and nothing of what that code does.

Two processes, because whatever runs in one process can change everything in it. The kernel's maps memory that the judge
made, calls the kernel there, and copies results into it. The judge keeps its own copy of each input, fills the place of
a result with NaN before the result comes, and compares. Requests and answers are lines of JSON; an answer that is wrong
in form ends the process. The supervisor (`minilab.sandbox`) ends it with all that it started, whoever dies first.

It is no prison: both processes are the same user's, so the kernel's may write that user's files, or kill the judge,
whose job then fails.
"""
