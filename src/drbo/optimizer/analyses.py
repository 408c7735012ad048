"""What other rooms make of an optimizer: each method hands it to `drbo.analysis` or `drbo.report` in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from drbo.optimizer.queries import Answers
from drbo.optimizer.view import computing

if TYPE_CHECKING:
    from drbo.analysis.backtest import Backtest
    from drbo.analysis.profile import RadiusProfile
    from drbo.analysis.radius_explanation import RadiusExplanation
    from drbo.analysis.sensitivity import RadiusSensitivity
    from drbo.analysis.watch import Watch
    from drbo.report.plots import Plots


class Analyses(Answers):
    """An optimizer with all that can be asked of it: what radii mean, cost and earned, alarms, figures and reports."""

    @overload
    def explain_radius(
        self,
        radius: float | None = None,
        *,
        reference: Any = None,
        window: int | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> RadiusExplanation: ...

    @overload
    def explain_radius(
        self,
        radius: Sequence[float],
        *,
        reference: Any = None,
        window: int | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> tuple[RadiusExplanation, ...]: ...

    @computing
    def explain_radius(
        self,
        radius: float | Sequence[float] | None = None,
        *,
        reference: Any = None,
        window: int | None = None,
        given: Mapping[Any, Any] | None = None,
    ) -> RadiusExplanation | tuple[RadiusExplanation, ...]:
        """Return what a radius means for the present reference, in the units of the contexts; print it.

        The radius of the present round by default. Several radii give a tuple, which costs less than one by one.
        `window` is how many days of the past are compared with as many days before them, a fifth of all by default.
        """
        from drbo.analysis.explain_radius import explain_all, explain_known

        terms = self._terms(self._known.state, reference, None, given)
        if isinstance(radius, Sequence) and not isinstance(radius, str):
            return explain_all(self._known, radius, terms, window)
        return explain_known(self._known, radius, terms, window)

    @computing
    def profile(
        self, radii: ArrayLike, *, reference: Any = None, given: Mapping[Any, Any] | None = None
    ) -> RadiusProfile:
        """Return what each radius (k,) costs and buys under the present posterior, without a further evaluation.

        One row per radius: what would be recommended, what is guaranteed and expected of it, what robustness costs and
        buys; with `to_frame()` and `plot()`.
        """
        from drbo.analysis.profile import profile_known

        return profile_known(self._known, radii, self._terms(self._known.state, reference, None, given))

    @computing
    def sensitivity(
        self,
        action: Any = None,
        radius: float | None = None,
        *,
        reference: Any = None,
        given: Mapping[Any, Any] | None = None,
    ) -> RadiusSensitivity:
        """Return how fast the guarantee of an action falls as the radius grows: worst-case sensitivity; print it.

        By default the action is the recommended one, and the radius that of the present round. Beside it stands the
        fast approximation of Tay et al. (ICML 2022), the guarantee at the reference less its sensitivity there times
        the radius, with its error. The derivative is in the radius, and in its square root for KL and chi-square, where
        the one in the radius is infinite at 0; where the guarantee has a kink it is the one to the right. It comes from
        the dual point of the certificate. Where contexts have a range it is on the atoms that the certificate needed.
        """
        from drbo.analysis.sensitivity import sensitivity_known

        terms = self._terms(self._known.state, reference, None, given)
        point = None if action is None else self._encode_action(action)
        return sensitivity_known(self._known, point, radius, terms)

    @computing
    def backtest(self, radii: ArrayLike, window: int, *, past: Any = None, actions: Any = None) -> Backtest:
        """Return what each radius (k,) would have earned in the past under the present posterior.

        At every step the reference is the `window` contexts before it. The action is the one of the best worst-case
        lower bound, and earns the posterior mean in the context that came. The posterior has seen outcomes of later
        days: this compares radii, and is no forecast.

        `past` are contexts in the order of time, by default those that the optimizer knows. `actions` are those to
        choose from. By default all of a finite set; of a box 128 well-spread ones, those told, and what would be
        recommended for each radius. Where contexts have a range, the adversary is limited to the past and the atoms.
        """
        from drbo.analysis.backtest import backtest_known

        return backtest_known(self._known, radii, window, past, actions)

    @computing
    def watch(
        self,
        contexts: Any,
        *,
        radius: float | None = None,
        reference: Any = None,
        alpha: float = 0.05,
        given: Mapping[Any, Any] | None = None,
    ) -> Watch:
        """Return whether contexts that arrived, in the order of time, have left the present set: an alarm.

        False alarms are raised with probability at most `alpha` over all times together, so that it may be asked after
        every context. They are for the hypothesis that each context, given those before it, is drawn from some
        distribution of the set. `contexts` must not be part of the reference, so do not tell them before.
        """
        from drbo.analysis.watch import watch_known

        terms = self._terms(self._known.state, reference, None, given)
        return watch_known(self._known, contexts, radius, terms, alpha)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page that shows what was learned and what is promised; return where it is.

        It needs no network. `title` is the file's name by default.
        """
        from drbo.report import write

        return write(self, path, title)

    @property
    def plot(self) -> Plots:
        """Matplotlib figures of the run: `opt.plot.progress()`, `opt.plot.dial()`, `opt.plot.worst_case()`."""
        from drbo.report.plots import Plots

        return Plots(self)
