"""Limits in the report and on the console: a panel and a line each."""

from pathlib import Path

import pytest

import drbo
from drbo.console import summary
from drbo.report.contents import PageContents
from drbo.report.plots import course
from optimizer.test_limits import filled, make


def test_a_panel_per_limit(tmp_path: Path) -> None:
    opt = filled(make(outcome="cost", unit="EUR"), 40)
    opt.tell(0.5, None, context=0.5, limits={"peak": drbo.Measured(2.5, stderr=0.1)})
    opt.tell(0.5, failed=True, context=0.5)
    part = PageContents(opt).limits()
    assert part is not None
    assert len(part["figures"]) == 2
    peak = part["figures"][0]
    within, beyond, band, line, limit = peak.marks
    told = [one.limits["peak"] for one in opt.results if "peak" in one.limits]
    values = [one.value if isinstance(one, drbo.Measured) else one for one in told]
    assert sorted([*within.y, *beyond.y]) == sorted(values)
    assert max(within.y) <= 1.1 < min(beyond.y)
    r = opt.recommend()
    assert line.y[-1] == pytest.approx(r.limits["peak"].value)
    assert band is not None
    assert limit.y == [1.1, 1.1]
    assert "Peak at most" in part["sentence"] or "peak at most" in part["sentence"]
    assert course(opt).failed.tolist() == [42]
    page = opt.report(tmp_path / "page.html").read_text()
    assert 'id="limits"' in page
    assert "beyond the limit" in page
    told_on_console = summary(opt)
    assert told_on_console["outcomes"] == 41
    assert len(told_on_console["failed"]) == 1
    assert told_on_console["deploy"]["limits"]["peak"]["value"] == r.limits["peak"].value
    assert told_on_console["last results"][-2]["limits"] == {"peak": 2.5}


def test_the_closest_action_where_none_is_known_to_meet_the_limits(tmp_path: Path) -> None:
    opt = filled(make(), 4)
    contents = PageContents(opt)
    assert contents.recommended is None
    part = contents.limits()
    assert part is not None
    assert "not known to hold" in part["sentence"]
    assert (
        "There is nothing to deploy. No action is known to meet all limits"
        in opt.report(tmp_path / "page.html").read_text()
    )
    assert PageContents(filled(make(limits=None), 0)).limits() is None
