"""How an optimizer is kept and copied: as a file, as records in another store, by pickle, and across a fork."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from drbo import validation
from drbo.knowledge import storage
from drbo.knowledge.configuration import Configuration
from drbo.knowledge.encoding import classes_in, handed_over
from drbo.knowledge.fact_json import facts_of, records_of, told_as
from drbo.knowledge.knowledge import Knowledge
from drbo.optimizer.analyses import Analyses
from drbo.optimizer.view import alone


class Stored(Analyses):
    """An optimizer that can be saved, loaded and replayed: its state is its configuration and its facts."""

    def __init__(self, **arguments: Any) -> None:
        """`arguments` are those of `Optimizer`."""
        self._configuration = Configuration.of(**arguments)
        self._facts = []
        self._file = storage.File()
        self._start_anew()
        _alive.add(self)

    def _start_anew(self) -> None:
        """Drop all that is derived from the facts; it is made again when it is needed."""
        self._lock = threading.RLock()
        self._known = Knowledge(self._configuration, self._facts)
        self._certified, self._best = None, None

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"arguments": self._configuration.arguments, "facts": list(self._facts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it was given when the optimizer was made
            Stored.__init__(self, **state["arguments"])
        self._facts.extend(state["facts"])

    @alone
    def save(self, path: str | Path) -> None:
        """Write configuration and facts to one file; legal at any moment.

        Records are appended to a file that this optimizer wrote or loaded before. A file that holds anything that this
        optimizer does not know is left as it is, with an error: no result of another process is ever lost.
        """
        self._file.save(validation.path("path", path), self._configuration.arguments, self._facts)

    @classmethod
    def load(cls, path: str | Path, classes: Sequence[type] = ()) -> Self:
        """Return a saved optimizer, which goes on as the one that was saved.

        `classes` are the sets, kernels, settings and policies of your own that the file names: no other code is run.
        """
        contents = storage.read(validation.path("path", path), handed_over(classes))
        with storage.told_as_damage(path):
            opt = cls(**contents.configuration)
            own = opt._configuration
            opt._facts.extend(contents.facts(own.search.space, own.nature.space))
            opt._known.check()
        opt._file = contents.file
        return opt

    @alone
    def resume(self, path: str | Path) -> None:
        """Go on from a file that an optimizer made with the same arguments has saved. Without a file, do nothing.

        One history must be the beginning of the other: a new optimizer takes over the whole file.
        """
        where, own = validation.path("path", path), self._configuration
        if not where.exists() or self._file.is_at(where):
            return
        contents = storage.read(where, tuple(classes_in(own.arguments)), like=own.arguments)
        with storage.told_as_damage(path):
            facts = list(contents.facts(own.search.space, own.nature.space))
            Knowledge(own, facts).state  # noqa: B018  # an error in the facts shows now
        mine, theirs = records_of(self._facts), records_of(facts)
        common = min(len(mine), len(theirs))
        if mine[:common] != theirs[:common]:
            raise RuntimeError(
                f"{path} holds another history than this optimizer: resume with a new optimizer, or save under another "
                "name"
            )
        self._facts.extend(facts[common:])
        self._file = contents.file

    @alone
    def records(self, start: int = 0) -> list[dict[str, Any]]:
        """Return the facts from number `start` on as JSON, one mapping each, for a store that is no file."""
        return records_of(self._facts[validation.whole_number("start", start, least=0) :])

    @alone
    def replay(self, records: Sequence[dict[str, Any]], *, keep: int = 0) -> None:
        """Let the history be its first `keep` facts, followed by these records, which `records` made.

        In a store of many writers, such as a database of trials, the order of the history is that of the store. A
        record may name a point by its value: `{"value": {"setpoint": 21.0}}`.
        """
        kept = validation.whole_number("keep", keep, least=0)
        if kept > len(self._facts):
            raise ValueError(f"keep must be at most {len(self._facts)}, the number of facts, got {kept}")
        own = self._configuration
        validation.of_kind("records", records, Sequence, "a sequence of records, as `records` gives them")
        new = facts_of(records, own.search.space, own.nature.space, tuple(classes_in(own.arguments)))
        facts = [*self._facts[:kept], *new]
        known = Knowledge(own, facts)
        with told_as("records do not follow from one another: "):
            known.check()
        if kept < len(self._facts):
            # In one step, so that Ctrl-C cannot come between the facts and what follows from them.
            vars(self).update(_facts=facts, _file=storage.File(), _known=known, _certified=None, _best=None)
        else:
            self._facts.extend(new)


_alive: weakref.WeakSet[Stored] = weakref.WeakSet()


def _after_fork() -> None:
    """Let the optimizers of a forked child start from their facts: another thread may have been inside one."""
    for opt in list(_alive):
        opt._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
