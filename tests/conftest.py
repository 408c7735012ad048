"""What tests of several rooms share."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bits import first_difference

settings.register_profile(
    "short", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("short"), max_examples=200)  # `make test-all`
settings.load_profile("short")


@pytest.fixture(autouse=True)
def same_working_folder() -> Iterator[None]:
    """Fail the test that leaves another working folder behind: a later test would fail in its place."""
    before = os.getcwd()
    yield
    try:
        after = os.getcwd()
    except FileNotFoundError:
        after = "a folder that was removed"
    if after != before:
        os.chdir(before)
        pytest.fail(f"the working folder was {before}, and the test leaves {after}")


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all records have the same time."""
    monkeypatch.setattr("drbo.knowledge.history.now", lambda: 0.0)


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Say where two nested results differ first: a comparison of bits that fails once may not fail again."""
    found = first_difference(left, right) if op == "==" and isinstance(left, list | tuple | dict) else ""
    return ["two results differ", f"first difference at {found}"] if found else None
