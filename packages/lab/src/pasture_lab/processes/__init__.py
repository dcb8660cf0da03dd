"""What touches the machine: servers, clients, programs, groups of processes."""
