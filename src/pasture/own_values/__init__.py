"""Generators of random numbers, which each process seeds for itself and a fork would copy."""
