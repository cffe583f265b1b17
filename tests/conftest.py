"""What all tests share: hypothesis without time limits (the machine is busy) and without a database on disk."""

from hypothesis import HealthCheck, settings

settings.register_profile("repro", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repro")
