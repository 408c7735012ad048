"""What an optimizer shows of itself: its configuration, its facts, its results and what is pending."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from drbo import validation
from drbo._threads import one_thread
from drbo.ambiguity.placed import PlacedSet
from drbo.knowledge import telling
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.explanation import as_html
from drbo.knowledge.history import Fact
from drbo.knowledge.knowledge import Knowledge
from drbo.knowledge.state import Iterate, State, Terms, kept
from drbo.knowledge.suggestion import Result, Suggestion, results_of
from drbo.models.bounds import Beta
from drbo.models.gp import GP
from drbo.models.learned import LearnedGP
from drbo.models.posterior import AnyPosterior
from drbo.rounds.policies import Policy
from drbo.rounds.settings import Setting
from drbo.spaces.box import Box
from drbo.spaces.finite import FiniteSet
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point
from drbo.validation import require

Method = TypeVar("Method", bound=Callable[..., Any])


def alone(method: Method) -> Method:
    """Let one thread at a time into an optimizer: a `tell` waits for an `ask` that is running."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


def computing(method: Method) -> Method:
    """Let one thread at a time into an optimizer, and linear algebra use one: for methods that need a posterior."""

    @functools.wraps(method)
    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock, one_thread():
            return method(self, *args, **kwargs)

    return cast(Method, limited)


class View:
    """An optimizer as it shows itself: what it was made with, what was told, and what is pending."""

    _configuration: Configuration
    _facts: list[Fact]
    _known: Knowledge
    _lock: threading.RLock

    def __repr__(self) -> str:
        told, waiting = self.n_told, len(self.pending)
        return f"Optimizer(actions={self.actions!r}, setting={self.setting!r}: {told} told, {waiting} pending)"

    def _repr_html_(self) -> str:
        failed = sum(result.failed for result in self.results)
        cells = {
            "told": self.n_told,
            "failed": failed,
            "pending": len(self.pending),
            "outcomes": "maximised" if self.maximize else "minimised",
            "actions": repr(self.actions),
            "contexts": repr(self.contexts),
            "setting": repr(self.setting),
        }
        return as_html("Optimizer", cells.items())

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def actions(self) -> FiniteSet | Box:
        """What we choose from."""
        return self._configuration.actions

    @property
    def contexts(self) -> FiniteSet | Samples | Box:
        """What nature chooses from."""
        return self._configuration.contexts

    @property
    def setting(self) -> Setting:
        """Who provides the reference and the radius of a round."""
        return self._configuration.setting

    @property
    def surrogate(self) -> GP | LearnedGP:
        """The model of f."""
        return self._configuration.surrogate

    @property
    def policy(self) -> Policy:
        """What chooses the next evaluation."""
        return self._configuration.policy

    @property
    def beta(self) -> Beta:
        """The rule for the width of the confidence bounds."""
        return self._configuration.beta

    @property
    def maximize(self) -> bool:
        """Whether outcomes are maximised."""
        return self._configuration.maximize

    @property
    def baseline(self) -> Any:
        """The action of today, as it was given; None if there is none."""
        return self._configuration.arguments["baseline"]

    @property
    @computing
    def posterior(self) -> AnyPosterior:
        """The posterior of the outcomes told so far, in the model's coordinates and units.

        It is on the contexts of `ambiguity`. Later outcomes do not reach it.
        """
        state = self._known.state
        return self._known.belief(state, self._known.atoms(state)).certain

    @property
    @alone
    def n_told(self) -> int:
        """How many results have been told, failed ones included."""
        return len(self._known.state.told_so_far)

    @property
    @computing
    def ambiguity(self) -> PlacedSet:
        """The family of ambiguity sets, put on the present atoms of the contexts."""
        return self._known.on(self._known.atoms(self._known.state), self._configuration.nature)

    @property
    @alone
    def pending(self) -> tuple[Suggestion, ...]:
        """The suggestions that have been neither told nor cancelled, the oldest first."""
        state = self._known.state
        return tuple(self._suggestion(iterate) for iterate in state.pending.values())

    @property
    @alone
    def history(self) -> tuple[Fact, ...]:
        """The facts: one record per command, in order (`drbo.knowledge.history`)."""
        return tuple(self._facts)

    @property
    @alone
    def results(self) -> tuple[Result, ...]:
        """What was told, in the user's units and in order: one per outcome. Outcomes told together have one `id`."""
        spaces = self._configuration.search.space, self._configuration.nature.space
        told = self._known.state.results.items()
        return tuple(result for id_, record in told for result in results_of(id_, record, *spaces))

    @alone
    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the results: one row per outcome, in the user's units, with its time (UTC)."""
        pandas = require("pandas", "frame")
        return pandas.DataFrame.from_records([telling.result_row(result, pandas) for result in self.results])

    # --- the user's side --------------------------------------------------------------------------------------------

    def _suggestion(self, iterate: Iterate) -> Suggestion:
        proposal, space = iterate.proposal, self._configuration.nature.space
        return Suggestion(
            number=proposal.number,
            action=self._configuration.search.space.decode(proposal.action),
            action_index=proposal.action.index,
            contexts=tuple(space.decode(context) for context in proposal.contexts),
            reference=self._known.reference_of(iterate).weights,
            radius=proposal.radius,
            score=proposal.score,
            action_point=proposal.action,
            context_points=proposal.contexts,
            fallback=proposal.fallback,
            loss=proposal.loss,
            given=iterate.given,
        )

    def _terms(self, state: State, reference: Any, radius: Any, given: Any) -> Terms:
        """Return what a query is for: what the caller gave, and otherwise what was given with the last ask."""
        last = state.terms
        return Terms(
            last.reference if reference is None else kept(reference),
            last.radius if radius is None else radius,
            last.given if given is None else self._known_values(given),
        )

    def _known_values(self, given: Any) -> Mapping[Any, Any] | None:
        """Return what a caller said to know of the context, as it is kept with the facts; None if nothing."""
        if given is None:
            return None
        values = validation.by_name(given)
        if not isinstance(values, Mapping):
            raise TypeError(f"given must map columns of the context to values, got {given!r}")
        return dict(self._configuration.nature.narrowed(values).known) if values else None

    def _encode_action(self, action: Any, name: str = "action") -> Point:
        return self._configuration.search.space.encode(name, action)
