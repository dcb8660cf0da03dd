"""What each process draws or makes for itself, and a fork would copy: generators, ids, caches."""
