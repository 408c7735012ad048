"""What tests of several rooms share."""

import pytest


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all records have the same time."""
    monkeypatch.setattr("drbo.optimizer.history.now", lambda: 0.0)
