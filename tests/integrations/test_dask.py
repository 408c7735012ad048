"""A real Dask cluster of three worker processes, one of which is killed: nothing is lost, nothing counts twice."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

import drbo

FIXED = drbo.GP(drbo.Product(drbo.RBF(0.4), drbo.RBF(0.5)), noise=0.1)


def simulate(action: dict[str, float], context: dict[str, float]) -> tuple[float, dict[str, float]]:
    """Return an outcome and, as a limited one, the process that computed it; one process dies in its first work."""
    folder = Path(os.environ["DRBO_TEST_FOLDER"])
    try:
        (folder / "victim").touch(exist_ok=False)
    except FileExistsError:
        time.sleep(0.05)
    else:
        (folder / "victim").write_text(str(os.getpid()))
        os.kill(os.getpid(), 9)
    return -((action["x"] - 0.5 * context["c"]) ** 2), {"process": float(os.getpid())}


def test_three_workers_and_one_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="pip install 'drbo[dask]'")
    monkeypatch.setenv("PYTHONPATH", f"{Path(drbo.__file__).parents[1]}{os.pathsep}{Path(__file__).parents[1]}")
    monkeypatch.setenv("DRBO_TEST_FOLDER", str(tmp_path))
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)),
        drbo.Samples({"c": np.linspace(0.0, 1.0, 9)}, support=0),
        setting=drbo.Simulator(radius=0.1, pick="uncertain"),
        surrogate=FIXED,
        limits={"process": drbo.AtLeast(0.0)},
    )
    seen: list[int | None] = []
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pool = client.get_executor(pure=False)
        drbo.run(
            opt, simulate, 12, executor=pool, workers=3, progress=False, save=tmp_path / "run.json",
            callback=lambda _, result: seen.append(result.number),
        )  # fmt: skip
    victim = float((tmp_path / "victim").read_text())
    assert [r.failed for r in opt.results] == [False] * 12  # Dask computed the lost evaluation elsewhere
    assert sorted(int(r.number or 0) for r in opt.results) == list(range(12))
    assert {*seen} == {*range(12)}
    assert len(seen) == 12
    assert victim not in {r.limits["process"] for r in opt.results}
    assert drbo.Optimizer.load(tmp_path / "run.json").n_told == 12
