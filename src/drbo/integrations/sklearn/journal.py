"""The file of a search: one line per finished candidate, from which a killed search goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import drbo
from drbo._files import append, locked, write_atomically
from drbo._messages import printable
from drbo.integrations.sklearn.candidates import Candidate, FitTask
from drbo.validation import path as checked_path


class Journal:
    """A file with one line per finished candidate, from which a killed search goes on.

    The first line says what is searched. Every further line has the scores of a candidate, and the facts that the
    optimizer has gained since the line before.
    """

    def __init__(self, path: Any, search: Mapping[str, Any]) -> None:
        self._path: Path | None = None if path is None else checked_path("resume", path)
        self._search, self._facts = dict(search), 0

    def begin(self, opt: drbo.Optimizer) -> list[Candidate]:
        """Return the candidates of the file, whose facts the optimizer takes over. A new file gets its first line."""
        if self._path is None:
            return []
        head = json.dumps(self._search, sort_keys=True)
        with locked(self._path):
            if not self._path.exists() or not self._path.stat().st_size:
                write_atomically(self._path, head + "\n")
                return []
            text = self._path.read_text(encoding="utf-8")
            lines = text.split("\n")
            if lines.pop():  # a crash cut the last line
                write_atomically(self._path, "".join(line + "\n" for line in lines))
        name = printable(self._path)
        try:
            found, *rest = [dict(json.loads(line)) for line in lines]
            shown = [line["candidate"] for line in rest]
            records = [record for line in rest for record in line["facts"]]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"resume={name!r} is not a file of a search: {error}") from None
        if different := [key for key in self._search if found.get(key) != json.loads(head)[key]]:
            raise ValueError(
                f"resume={name!r} holds another search, which differs in {', '.join(different)}: give another file"
            )
        opt.replay(records)
        self._facts = len(records)
        actions = {result.id: result.action for result in opt.results}.values()
        return [Candidate(action, **one) for action, one in zip(actions, shown, strict=True)]

    def add(self, opt: drbo.Optimizer, candidate: Candidate) -> None:
        """Append a candidate; it is on the disk when this returns."""
        if self._path is None:
            return
        facts = opt.records(self._facts)
        shown = {name: value for name, value in asdict(candidate).items() if name != "action"}  # the facts have it
        line = json.dumps({"candidate": shown, "facts": facts})
        with locked(self._path):
            append(self._path, line + "\n")
        self._facts += len(facts)


def fingerprint(search: Any, task: FitTask, splits: list[Any], names: list[str]) -> dict[str, Any]:
    """Return what must be equal for a search to go on from a file."""

    def digest(*parts: Any) -> str:
        made = hashlib.sha256()
        for part in parts:
            made.update(repr(None if part is None else np.asarray(part).tolist()).encode())
        return made.hexdigest()[:16]

    rows = [part for split in splits for part in split]
    return {
        "format": 1,
        "estimator": repr(clone(search.estimator)),
        "param_space": repr(search.param_space),
        "ambiguity": repr(search.ambiguity),
        "radius": None if search.radius is None else float(search.radius),
        "scoring": task.score.name,
        "z": float(search.z),
        "contexts": digest(names, task.groups),
        "y": digest(task.y),
        "folds": digest(*rows),
        "sample_weight": digest(task.weights),
        "shape of X": list(np.shape(task.X)),
    }
