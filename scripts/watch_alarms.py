"""False alarms and delays of `opt.watch`, by simulation: `python scripts/watch_alarms.py [RUNS]`.

Under the hypothesis contexts are drawn at the border of the set, where false alarms are likeliest: from the worst
distribution of a random reward on labels; on samples from days that are all shifted by as much as the radius allows.
With a shift by `times` as much they have left the set. The table is in docs/radius.md.

On samples only the twenty shifted days can arrive, so the bets of all runs are computed at once; the first runs are
checked against `opt.watch`'s own bets.
"""

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from drbo import KL, MMD, RBF, TotalVariation, Wasserstein
from drbo.ambiguity import PlacedSet
from drbo.ambiguity.placed import SupportsShift, supports
from drbo.analysis import Watch
from drbo.analysis.watch import Bet, BettingRule, ContinuousBets, FiniteBets, Watched, gamble

ALPHA = 0.05
LABELS = np.array([0.4, 0.3, 0.2, 0.1])
PAST = np.random.default_rng(0).normal(size=(20, 1))
SHIFT, LENGTHSCALE = 0.4, 0.8


def on_labels(ambiguity: PlacedSet, radius: float, rng: np.random.Generator, times: float) -> Watch:
    """Return what is said of 60 labels, drawn from the worst distribution of `times` the radius."""
    border = ambiguity.worst_case(rng.normal(size=4), LABELS, times * radius).weights
    arrived = rng.choice(4, size=60, p=border / border.sum())
    return gamble(FiniteBets(Watched(ambiguity, LABELS, radius), arrived), 60, ALPHA, radius, "")


Functions = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Per run what a bet's function is on each day (runs, n), the most that its mean can be (runs,), its least (runs,)."""


def mmd_functions(shares: np.ndarray, there: np.ndarray, radius: float) -> Functions:
    """Return the witness functions of the MMD for shares (runs, n) of the days that arrived at `there` (n,)."""

    def gram(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-0.5 * ((a[:, None] - b) / LENGTHSCALE) ** 2))

    past = PAST[:, 0]
    on_there = shares @ gram(there, there) - gram(past, there).mean(axis=0)
    on_past = shares @ gram(there, past) - gram(past, past).mean(axis=0)
    norm = np.sqrt((shares * on_there).sum(axis=1) - on_past.mean(axis=1))
    return on_there / norm[:, None], on_past.mean(axis=1) / norm + radius, np.full(len(shares), -1.0)


def wasserstein_functions(shares: np.ndarray, there: np.ndarray, radius: float) -> Functions:
    """Return the functions of slope 1 that tell most of the days that arrived."""
    past = PAST[:, 0]
    mean = past.mean()
    way = np.sign(shares @ there - mean)[:, None]
    found = []
    for on_there, on_past in (
        (way * there, way * past),
        *((sign * np.abs(there - mean), sign * np.abs(past - mean)) for sign in (1.0, -1.0)),
    ):
        values, known = np.broadcast_to(on_there, shares.shape), np.broadcast_to(on_past, (len(shares), len(past)))
        low = np.minimum(np.where(shares > 0.0, values, np.inf).min(axis=1), known.min(axis=1))
        high = np.maximum(np.where(shares > 0.0, values, -np.inf).max(axis=1), known.max(axis=1))
        found.append((np.clip(values, low[:, None], high[:, None]), known.mean(axis=1) + radius, low))
    best = np.argmax([(shares * values).sum(axis=1) - most for values, most, _ in found], axis=0)
    rows = np.arange(len(shares))
    values, most, low = (np.array([one[i] for one in found])[best, rows] for i in range(3))
    return values, most, low


class Runs:
    """Runs of 30 days that are shifted by `times` as much as the radius allows, with their bets."""

    def __init__(self, ambiguity: PlacedSet, functions: Callable[..., Functions], times: float, count: int) -> None:
        self._p = np.full(len(PAST), 1.0 / len(PAST))
        self._ambiguity = placed = ambiguity
        assert supports(placed, SupportsShift)
        radius = placed.moved(self._p, PAST + SHIFT)
        self._functions, self.radius = functions, radius
        self._there = PAST[:, 0] + times * SHIFT
        self._arrived = np.random.default_rng(1).integers(0, len(PAST), size=(count, 30))
        self._gains: list[np.ndarray] = []

    def gains(self, bets: Sequence[Bet]) -> list[np.ndarray]:
        """Return per bet the gains of all runs (runs, days)."""
        if not self._gains:
            days = np.eye(len(PAST))[self._arrived]
            for bet in bets:
                shares = days[:, bet.learned].mean(axis=1)
                values, most, least = self._functions(shares, self._there, self.radius)
                so_far = (shares * values).sum(axis=1)
                risk = np.maximum(most - least, 1e-6 * (so_far - least))[:, None]
                on = np.take_along_axis(values, self._arrived[:, bet.on], axis=1)
                gains = np.maximum((on - (least[:, None] + risk)) / risk, -1.0)
                self._gains.append(np.where((so_far > most)[:, None], gains, 0.0))
        return self._gains

    def watched(self) -> Iterator[Watch]:
        """Yield what is said of each run."""
        own = Watched(self._ambiguity, self._p, self.radius)
        for run, days in enumerate(self._arrived):
            said = gamble(Simulated(self, run), 30, ALPHA, self.radius, "")
            if run < 10:
                same = gamble(ContinuousBets(own, self._there[days][:, None]), 30, ALPHA, self.radius, "")
                np.testing.assert_allclose(said.wealth, same.wealth, rtol=1e-9)
            yield said


class Simulated(BettingRule):
    """The bets of one of the runs."""

    def __init__(self, runs: Runs, run: int) -> None:
        self._runs, self._run = runs, run

    def gains(self, bets: Sequence[Bet]) -> list[np.ndarray]:
        """Return the gains of each bet."""
        return [gains[self._run] for gains in self._runs.gains(bets)]


def label_runs(ambiguity: PlacedSet, radius: float) -> Callable[[float, int], Iterator[Watch]]:
    """Return what makes runs on labels, given how many radii away and how many runs."""

    def runs(times: float, count: int) -> Iterator[Watch]:
        rng = np.random.default_rng(1)
        return (on_labels(ambiguity, radius, rng, times) for _ in range(count))

    return runs


CASES: dict[str, Callable[[float, int], Iterator[Watch]]] = {
    "`TotalVariation`, labels, radius 0.15": label_runs(TotalVariation(), 0.15),
    "`KL`, labels, radius 0.1": label_runs(KL(), 0.1),
    "`MMD`, samples": lambda times, count: Runs(
        MMD(kernel=RBF(LENGTHSCALE)).on(PAST), mmd_functions, times, count
    ).watched(),
    "`Wasserstein`, samples": lambda times, count: Runs(
        Wasserstein().on(PAST), wasserstein_functions, times, count
    ).watched(),
}


def main(runs: int) -> None:
    """Print one row per set."""
    print(f"| set | false alarms in {runs:,} runs | alarms at 2 radii | at 3 radii | median delay at 3 radii |")
    print("|---|---|---|---|---|")
    for name, case in CASES.items():
        false = np.mean([one.alarm for one in case(1.0, runs)])
        left = {times: list(case(times, max(runs // 20, 20))) for times in (2.0, 3.0)}
        shares = [float(np.mean([one.alarm for one in left[times]])) for times in (2.0, 3.0)]
        delays = [one.at + 1 for one in left[3.0] if one.at is not None]
        delay = f"{np.median(delays):.0f} contexts" if delays else "-"
        print(f"| {name} | {false:.2%} | {shares[0]:.0%} | {shares[1]:.0%} | {delay} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
