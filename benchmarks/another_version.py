"""An optimizer of another version of drbo, in a process of its own.

`screen.py old --old OLD/src` compares the default of that version with the present one. Only names that both versions
know are used. Both processes exchange lines of JSON: the problem first, then commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import drbo


class AnotherVersion:
    """An optimizer over the unit cube, with the defaults of the version whose source is in a folder.

    Parameters
    ----------
    source : the folder that holds the package `drbo`
    dimension : the number of parameters
    contexts : (n, d) past contexts
    ranged : whether anything in the unit cube of the contexts may come
    radius : the radius of an MMD set; 0 for the expectation
    seed : the seed of the optimizer
    """

    def __init__(
        self, source: Path, dimension: int, contexts: Sequence[Any], ranged: bool, radius: float, seed: int
    ) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        command = [sys.executable, "-W", "ignore", __file__]
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        names = ("dimension", "contexts", "ranged", "radius", "seed")
        self._send(**dict(zip(names, (dimension, contexts, ranged, radius, seed), strict=True)))

    def _send(self, **message: Any) -> None:
        assert self._process.stdin is not None  # a pipe
        print(json.dumps(message), file=self._process.stdin, flush=True)

    def _receive(self) -> Any:
        assert self._process.stdout is not None  # a pipe
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of the other version has ended; its error is on stderr")
        return SimpleNamespace(**json.loads(line))

    def ask(self) -> Any:
        """Return a suggestion with an action and a context."""
        self._send(command="ask")
        return self._receive()

    def tell(self, suggestion: Any, outcome: float) -> None:  # noqa: ARG002  # the last suggestion is meant
        """Take in the outcome of the last suggestion."""
        self._send(command="tell", outcome=outcome)

    def recommend(self) -> Any:
        """Return a recommendation with an action and a value."""
        self._send(command="recommend")
        return self._receive()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve() -> None:
    """Make the optimizer that the first line describes, and obey the further lines."""
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    box = drbo.Box({f"x{k + 1}": (0.0, 1.0) for k in range(asked["dimension"])})
    ambiguity = drbo.MMD() if asked["radius"] else drbo.Expectation()
    setting = drbo.Simulator(radius=asked["radius"])
    contexts, names = asked["contexts"], [f"c{k + 1}" for k in range(len(asked["contexts"][0]))]
    if asked["ranged"]:
        columns = {name: [row[k] for row in contexts] for k, name in enumerate(names)}
        samples = drbo.Samples(columns, within=drbo.Box(dict.fromkeys(names, (0.0, 1.0))))
    else:
        samples = drbo.Samples(contexts, support=0)
    optimizer = drbo.Optimizer(box, samples, ambiguity=ambiguity, setting=setting, seed=asked["seed"])
    for line in sys.stdin:
        message = json.loads(line)
        if message["command"] == "ask":
            suggestion = optimizer.ask()
            _answer(action=suggestion.action, context=suggestion.context)
        elif message["command"] == "tell":
            optimizer.tell(suggestion, message["outcome"])
        else:
            r = optimizer.recommend()
            _answer(action=r.action, value=float(r.value))


def _answer(**fields: Any) -> None:
    lists = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in fields.items()}
    print(json.dumps(lists), flush=True)


if __name__ == "__main__":
    serve()
