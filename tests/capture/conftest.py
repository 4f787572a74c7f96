"""Property tests here have no deadline: a busy machine is not a finding."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
