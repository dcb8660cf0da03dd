"""The parts that touch the machine: servers, clients, programs, groups of processes."""
