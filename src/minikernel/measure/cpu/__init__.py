"""How fast a kernel is on a CPU, and what it ran into there: pages, cycles, bytes."""
