"""For tests that start nothing."""

from hypothesis import HealthCheck, settings

# No test asserts a time: on a busy machine the first examples take a second by themselves.
settings.register_profile("timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("timeless")
