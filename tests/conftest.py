"""What tests of several rooms share."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "short", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("short"), max_examples=200)  # `make test-all`
settings.load_profile("short")


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all records have the same time."""
    monkeypatch.setattr("drbo.optimizer.history.now", lambda: 0.0)
