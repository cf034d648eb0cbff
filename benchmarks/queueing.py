"""How long a job waits for a GPU that many share.

Students submit at moments that have nothing to do with one another (Poisson arrivals) jobs that take nearly the same
time each, so one GPU is an M/D/1 queue: the mean wait is load * service / (2 (1 - load)) (Pollaczek and Khinchine).
For several GPUs behind one queue it is taken as half of the M/M/c queue's (Erlang's C formula), which is the same for
one GPU and within a few per cent of M/D/c at the loads where waiting matters.
"""

from minilab.errors import LabError


def mean_wait(service: float, load: float, gpus: int = 1) -> float:
    """The mean wait before a job starts, in the unit of `service`.

    Args:
        service: how long one job holds a GPU.
        load: the part of the time in which the GPUs are busy; arrivals per unit of time are load * gpus / service.
        gpus: how many GPUs take jobs from the one queue.

    Raises:
        LabError: the load is not in [0, 1): at 1 and beyond, the queue grows without end.
    """
    if not 0 <= load < 1:
        raise LabError(
            f"a load of {load:g} has no mean wait, because at 1 and more the queue grows without end; "
            f"give one from 0 up to 1, or more GPUs."
        )
    offered, blocked = load * gpus, 1.0
    for servers in range(1, gpus + 1):  # Erlang B, by its recursion over the number of servers
        blocked = offered * blocked / (servers + offered * blocked)
    waits = blocked / (1 - load * (1 - blocked))  # Erlang C
    return waits * service / (gpus * (1 - load)) / 2


def last_start(service: float, jobs: int, gpus: int = 1) -> float:
    """When the last of `jobs` that are submitted at the same moment starts, in the unit of `service`."""
    return (jobs - 1) // gpus * service
