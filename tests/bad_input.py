"""Every argument of the public API, with values that it must refuse.

`calls` says how each public function is called well. The walk finds their arguments by itself, and puts junk in the
place of each, one at a time: some 2,800 calls that must be refused by a TypeError or a ValueError which names the
argument, with nothing changed. `python tests/bad_input.py` prints what is not.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import drbo
from bits import bits
from drbo import regret
from drbo.optimizer.question import Question

X, C = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 1.0, 4)
P = np.full(4, 0.25)
KERNEL = drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3))


class Odd:
    """What no argument takes."""

    def __repr__(self) -> str:
        return "Odd()"


JUNK: dict[str, Any] = {
    "odd": Odd(),
    "text": "junk",
    "nan": float("nan"),
    "minus one": -1,
    "a half": 0.5,
    "huge": 10**400,
    "empty": [],
    "ragged": [[1.0], [2.0, 3.0]],
    "cube": np.zeros((2, 2, 2)),
    "mapping": {"no such name": 1.0},
}
ENDLESS = {("run", "evaluations", "huge"), ("run", "workers", "huge"), ("run", "tolerance", "a half")}
"""What would be right, and take for ever."""
FILES = {("save", "path"), ("resume", "path"), ("load", "path"), ("run", "save")}
"""A file that is there and holds something else has errors of its own, which are kinds of these."""
OTHER_WORDS = {
    ("tell", "outcome"): "contexts[0]",  # a mapping from contexts to outcomes
    ("DataDriven.tell", "outcome"): "a mapping from contexts",
    ("amend", "outcome"): "contexts[0]",
    ("tell", "context_index"): "context must not be given",
    ("Optimizer", "contexts"): "one per context",
    ("problems.by_name", "name"): "unknown problem",
    **dict.fromkeys(FILES, "junk"),
}
"""What an error says where it does not use the name of the argument."""
ANY = {"diameter(hull)", "from_json(classes)"}
"""What only other parts of drbo give."""


def optimizer(setting: Any = None, **more: Any) -> drbo.Optimizer:
    """Return an optimizer with some results and one pending suggestion."""
    chosen = drbo.Simulator(P, 0.1, pick="uncertain") if setting is None else setting
    opt = drbo.Optimizer(X, C, setting=chosen, **{"surrogate": drbo.GP(KERNEL, 0.1), **more})
    given: dict[str, Any] = {"reference": P, "radius": 0.1} if isinstance(chosen, drbo.General) else {}
    for i in range(3):
        s = opt.ask(**given)
        opt.tell(s, float(i), context_index=None if s.contexts else i)
    opt.ask(**given)
    return opt


def labelled() -> drbo.Optimizer:
    """Return an optimizer whose contexts are labels in two columns."""
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)),
        drbo.Samples({"day": ["Mon", "Tue", "Mon"], "demand": [1.0, 2.0, 3.0]}),
        setting=drbo.General(),
        surrogate=drbo.LearnedGP(),
    )
    opt.tell({"x": 0.5}, 1.0, context={"day": "Mon", "demand": 1.5})
    return opt


class Call:
    """A public function, how it is called well, and what must not change when it is called badly.

    A method is given by its name: "ask" of an optimizer, "under.profile" of a question.
    """

    def __init__(self, function: Callable[..., Any] | str, opt: drbo.Optimizer | None = None, /, **good: Any) -> None:
        self.function, self.opt, self.good = function, opt, good

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments."""
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        owner: type = Question if isinstance(self.function, str) and "." in self.function else drbo.Optimizer
        name = self.function.split(".")[-1] if isinstance(self.function, str) else ""
        function: Any = getattr(owner, name) if name else self.function
        parameters = inspect.signature(function).parameters
        return tuple(name for name, p in parameters.items() if name != "self" and p.kind not in kinds)

    def with_junk(self, argument: str, junk: Any) -> tuple[str, str]:
        """Call it with junk in the place of one argument; return the error and its message, "accepted" if none.

        A method is called on a copy. Where it is refused, the copy must be as before.
        """
        opt = copy.deepcopy(self.opt)
        owner = opt.under() if opt is not None and "." in str(self.function) else opt
        name = self.function.split(".")[-1] if isinstance(self.function, str) else ""
        function: Any = getattr(owner, name) if name else self.function
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(**{**self.good, argument: junk})
        except Exception as error:  # whatever it is
            assert opt is None or self.opt is None or bits(opt.history) == bits(self.opt.history), (argument, junk)
            return type(error).__name__, str(error)
        return "accepted", ""


def no_evaluation(*_: Any) -> float:
    """Return an outcome."""
    return 0.0


def calls() -> dict[str, Call]:
    """Return every public function by its name."""
    opt, general, rows = optimizer(), optimizer(drbo.General()), labelled()
    data_driven = optimizer(drbo.DataDriven(radius=0.1))
    frame = {"x": [0.1, 0.5, 0.9], "c": [0.0, 0.5, 1.0], "y": [1.0, 2.0, 1.5]}
    named = drbo.Optimizer.from_frame(frame, ["x"], ["c"], "y", radius=0.1)
    s, result = opt.pending[0], opt.results[0]
    values = np.arange(24.0).reshape(6, 4)
    mmd = drbo.MMD(C, drbo.RBF(0.3))
    samples = drbo.Samples(np.linspace(0.0, 1.0, 20)[:, None])
    folder = Path.cwd()
    opt.save(folder / "state.json")
    chance = drbo.Chance(0.9, above=1.0)
    bounds = {"beta": 1.0, "gamma": 1.0, "horizon": 5}
    numbered = {"reference": P, "radius": 0.1}
    found = {
        # what an optimizer is made of
        "Real": Call(drbo.Real, low=0.0, high=1.0),
        "Log": Call(drbo.Log, low=0.1, high=1.0),
        "Integer": Call(drbo.Integer, low=0, high=3),
        "LinearConstraint": Call(drbo.LinearConstraint, coefficients={"x": 1.0}, at_most=1.0),
        "Normal": Call(drbo.Normal, mean=0.0, std=1.0),
        "Uniform": Call(drbo.Uniform, low=0.0, high=1.0),
        "Samples": Call(drbo.Samples, data=np.zeros((3, 2))),
        "RBF": Call(drbo.RBF, lengthscale=1.0),
        "Matern": Call(drbo.Matern, lengthscale=1.0),
        "ConstantKernel": Call(drbo.ConstantKernel),
        "Product": Call(drbo.Product, action=drbo.RBF(1.0), context=drbo.RBF(1.0)),
        "GP": Call(drbo.GP, kernel=KERNEL, noise=0.1),
        "LearnedGP": Call(drbo.LearnedGP),
        "Known": Call(drbo.Known, function=no_evaluation),
        "TheoreticalBeta": Call(drbo.TheoreticalBeta, bound=1.0, noise=0.1),
        "MMD": Call(drbo.MMD),
        "MMD.of_features": Call(drbo.MMD.of_features, features=np.eye(3)),
        "Wasserstein": Call(drbo.Wasserstein),
        "Neighbourhood": Call(drbo.Neighbourhood),
        "Moments": Call(drbo.Moments, widths=1.0),
        "PhiDivergence": Call(drbo.PhiDivergence, phi=lambda t: (t - 1.0) ** 2),
        "Shares": Call(drbo.Shares, shares={"a": (0.0, 0.5)}),
        "AnyOf": Call(drbo.AnyOf, scenarios=[P]),
        "DataDriven": Call(drbo.DataDriven),
        "Simulator": Call(drbo.Simulator, reference=P, radius=0.1),
        "Optimism": Call(drbo.Optimism),
        "Checked": Call(drbo.Checked),
        "JointOptimism": Call(drbo.JointOptimism),
        "MeanEmbedding": Call(drbo.MeanEmbedding),
        "Thompson": Call(drbo.Thompson),
        "ValueOfInformation": Call(drbo.ValueOfInformation),
        "Chance": Call(drbo.Chance, at_least=0.9, above=1.0),
        "LevelSet": Call(drbo.LevelSet, chance=chance),
        "AtMost": Call(drbo.AtMost, threshold=1.0, probability=0.9),
        "AtLeast": Call(drbo.AtLeast, threshold=1.0, probability=0.9),
        "Measured": Call(drbo.Measured, value=1.0, stderr=0.1),
        "Undecided": Call(drbo.Undecided, chance=chance),
        "Satisficing": Call(drbo.Satisficing, target=1.0),
        "radius.Constant": Call(drbo.radius.Constant, value=0.1),
        "radius.Decaying": Call(drbo.radius.Decaying, scale=1.0),
        "radius.Theoretical": Call(drbo.radius.Theoretical),
        "radius.Bootstrap": Call(drbo.radius.Bootstrap),
        "radius.Calibrated": Call(drbo.radius.Calibrated),
        "radius.EmpiricalLikelihood": Call(drbo.radius.EmpiricalLikelihood),
        # worst cases
        "worst_case": Call(mmd.worst_case, values=values, reference=P, radius=0.1),
        "distance": Call(mmd.distance, p=P, q=P),
        "sensitivity": Call(drbo.ambiguity.sensitivity, ambiguity=mmd, values=values, reference=P, radius=0.1),
        "diameter": Call(mmd.placed.diameter, reference=P),
        # an optimizer
        "Optimizer": Call(drbo.Optimizer, actions=X, contexts=C, setting=drbo.Simulator(P, 0.1, pick="uncertain")),
        "Optimizer.from_frame": Call(
            drbo.Optimizer.from_frame, frame=frame, actions=["x"], contexts=["c"], outcome="y", radius=0.1
        ),
        "ask": Call("ask", opt),
        "General.ask": Call("ask", general, **numbered),
        "given.ask": Call("ask", rows, reference=drbo.Samples({"day": ["Mon"], "demand": [2.0]}), radius=0.1),
        "tell": Call("tell", opt, suggestion=s, outcome=1.0),
        "DataDriven.tell": Call("tell", data_driven, suggestion=X[0], outcome=1.0, context=C[0]),
        "cancel": Call("cancel", opt, suggestion=s),
        "retract": Call("retract", opt, result=result),
        "amend": Call("amend", opt, result=result, outcome=1.0),
        "recommend": Call("recommend", opt),
        "recommend_for": Call("under.recommend_for", opt, target=1.0),
        "probability": Call("under.probability", opt, action=X[0], above=1.0),
        "value_at_risk": Call("under.value_at_risk", opt, action=X[0], level=0.1),
        "classify": Call("under.classify", opt, chance=chance),
        "bound": Call("bound", opt, action=X[0]),
        "under": Call("under", opt),
        "under.recommend": Call("under.recommend", opt),
        "under.bound": Call("under.bound", opt, action=X[0]),
        "append": Call("append", named, frame=frame, outcome="y"),
        "compare": Call("under.compare", opt, action=X[0], other=X[1]),
        "predict": Call("predict", opt, action=X[0], context=C[0]),
        "Optimizer.profile": Call("under.profile", opt, radii=[0.1]),
        "Optimizer.sensitivity": Call("under.sensitivity", opt),
        "Optimizer.backtest": Call("under.backtest", data_driven, radii=[0.1], window=1),
        "Optimizer.explain_radius": Call("under.explain_radius", opt, radius=0.1),
        "leave_one_out": Call("leave_one_out", opt),
        "narrowing": Call("under.narrowing", opt, action=X[0]),
        "regret_bound": Call("under.regret_bound", opt),
        "watch": Call("watch", opt, contexts=[0, 1]),
        "records": Call("records", opt),
        "replay": Call("replay", opt, records=[], keep=len(opt.history)),
        "report": Call("report", opt, path=folder / "page.html"),
        "save": Call("save", opt, path=folder / "state.json"),
        "resume": Call("resume", opt, path=folder / "state.json"),
        "load": Call(drbo.Optimizer.load, path=folder / "state.json"),
        "run": Call(drbo.run, None, opt=opt, evaluate=no_evaluation, evaluations=3, workers=1, progress=False),
        # numbers about numbers
        "backtest": Call(drbo.backtest, values=values, ambiguity=mmd, seen=[0, 1, 2, 3], radii=[0.1], window=2),
        "backtest_radius": Call(drbo.backtest_radius, samples=samples, ambiguity=None, rules=0.1, horizon=1, first=1),
        "explain_radius": Call(drbo.explain_radius, radius=0.1, samples=samples),
        "information_gain": Call(drbo.models.information_gain, gram=np.eye(3), ridge=1.0),
        "maximum_information_gain": Call(
            drbo.models.maximum_information_gain, gp=drbo.GP(KERNEL, 0.1), actions=X, contexts=C, horizon=2
        ),
        "from_json": Call(drbo.knowledge.from_json, value=1.0),
        "general_bound": Call(regret.general_bound, beta=1.0, gamma=1.0, radii=[0.1], shift_norm=1.0, delta=0.1),
        "data_driven_bound": Call(regret.data_driven_bound, **bounds, shift_norm=1.0, delta=0.1),
        "printed_data_driven_bound": Call(regret.printed_data_driven_bound, **bounds, shift_norm=1.0, delta=0.1),
        "simulator_bound": Call(regret.simulator_bound, **bounds),
        "simple_regret_bound": Call(regret.simple_regret_bound, **bounds),
        "shift_norm": Call(regret.shift_norm, values=values, ambiguity=mmd),
        "simple_regret": Call(
            regret.simple_regret, values=values, ambiguity=mmd, reference=P, radius=0.1, action_index=0
        ),
        "robust_regret": Call(
            regret.robust_regret, values=values, ambiguity=mmd, references=P, radii=0.1, action_indices=[0, 1]
        ),
        "problems.by_name": Call(drbo.problems.by_name, name="robos"),
    }
    return found


def walk() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield function, argument, junk, error and message of every call."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, call in calls().items():
            for argument in call.arguments:
                for kind, junk in JUNK.items():
                    if (name, argument, kind) not in ENDLESS:
                        yield name, argument, kind, *call.with_junk(argument, junk)


def faults() -> list[str]:
    """Return what is refused in a way that does not help, and what takes anything."""
    found: list[str] = []
    refused: dict[str, bool] = {}
    for name, argument, kind, error, message in walk():
        where = f"{name}({argument})"
        refused[where] = refused.get(where, False) or error != "accepted"
        if error in ("accepted", "NotReachedError"):
            continue
        if error not in ("TypeError", "ValueError") and (name, argument) not in FILES:
            found.append(f"{where} with {kind}: {error}: {message[:100]}")
        elif argument not in message and OTHER_WORDS.get((name, argument), message + "?") not in message:
            found.append(f"{where} with {kind} does not name it: {message[:100]}")
    return [*found, *(f"{where} takes anything" for where, one in refused.items() if not one and where not in ANY)]


if __name__ == "__main__":
    print("\n".join(faults()))
