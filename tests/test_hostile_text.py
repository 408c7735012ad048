"""What a user typed is text wherever it is shown: in pages, notebooks, figures, tables and terminals.

Names of parameters and conditions, labels, titles, names of files and of studies hold markup, quotes, formulas of
spreadsheets, mathematics of matplotlib and control characters. Nothing of it is run, and a page loads nothing.
"""

import dataclasses
import json
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from typer.testing import CliRunner

import drbo
import queries
from drbo import console
from drbo.cli import app
from drbo.integrations.optuna import RobustSampler, observe, plot_bounds, plot_radii, plot_worst_case
from drbo.problems import WindSeries, read_wind_csv
from drbo.report.page import page
from integrations.weather import FIXED, study_of
from knowledge.damage import with_checksums

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)//",
    "a & b &lt;b&gt;",
    "line\nbreak\r\ttab",
    "=cmd|'/C calc'!A0",
    "'; alert(1); '",
    "<!-- <style>*{display:none}</style>",
    "\x1b[31mred\x1b]0;title\x07\x00",
    "$\\frac{$ and $x_$",
    '<a href="javascript:alert(1)">{{7*7}}</a>',
    "[bold]x[/bold] %s {0} \u202e \U0001f600",
)
KINDS = range(0, len(HOSTILE), 4)


def make(first: int, ambiguity: drbo.AmbiguitySet | None = None) -> drbo.Optimizer:
    """Return an optimizer with four of the texts as names and as labels."""
    texts = HOSTILE[first : first + 4]
    a, b, c, d = texts
    opt = drbo.Optimizer(
        drbo.Box({a: (0.0, 1.0), b: drbo.Categorical(*texts)}),
        drbo.Samples({c: np.linspace(0.0, 1.0, 8), d: [*texts] * 2}),
        ambiguity=ambiguity,
        setting=drbo.Simulator(radius=0.1),
        surrogate=FIXED,
        baseline={a: 0.5, b: texts[0]},
    )
    for i, text in enumerate(texts):
        opt.tell({a: i / 4, b: text}, float(i % 3), context={c: 0.5, d: texts[-i]})
    opt.tell(opt.ask(), failed=True)
    opt.ask()
    return opt


@pytest.fixture(scope="module", params=[0, *(pytest.param(i, marks=pytest.mark.slow) for i in KINDS[1:])])
def opt(request: pytest.FixtureRequest) -> drbo.Optimizer:
    return make(request.param)


class Elements(HTMLParser):
    """Elements with their attributes, and all text, as a browser reads them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.comments: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def tags(markup: str) -> set[str]:
    return {tag for tag, _ in Elements(markup).elements}


def test_a_title_is_text() -> None:
    plain = drbo.Optimizer([0.0, 1.0], [0.0, 1.0], setting=drbo.Simulator([1, 1], 0.1))
    usual = [tag for tag, _ in Elements(page(plain, "x")).elements]
    for title in HOSTILE:
        found = Elements(page(plain, title))
        assert [tag for tag, _ in found.elements] == usual
        assert "".join(found.text).count(title.replace("\0", "\ufffd")) >= 2  # HTML has no character 0


def test_a_page_has_no_element_and_no_address_of_a_users(opt: drbo.Optimizer) -> None:
    text = page(opt, HOSTILE[0])
    found = Elements(text)
    assert sum(tag == "script" for tag, _ in found.elements) == 1
    assert found.comments == []
    assert {tag for tag, _ in found.elements} <= {
        "html", "head", "meta", "link", "title", "style", "body", "header", "h1", "h2", "h3", "main", "section", "p",
        "dl", "dt", "dd", "div", "details", "summary", "pre", "ul", "li", "span", "label", "input", "output", "select",
        "option", "button", "table", "thead", "tbody", "tr", "th", "td", "data", "script", "noscript",
        "svg", "g", "path", "circle", "rect", "line", "image", "use", "a", "strong",
    }  # fmt: skip
    for tag, attributes in found.elements:
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            address = attributes.get(name, "data:,")
            inside = tag in ("a", "use") and str(address).startswith("#")  # a place of the page itself
            picture = tag == "image" and str(address).startswith("data:image/png;base64,")
            assert address == "data:," or inside or picture, tag
    shown = "".join(found.text)
    for name in opt.results[0].action:  # exactly as they were typed
        assert name.replace("\0", "\ufffd") in shown
    policy = next(attributes for tag, attributes in found.elements if attributes.get("http-equiv"))
    assert str(policy["content"]).startswith("default-src 'none'; script-src 'sha256-")


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def test_a_notebook_shows_text(opt: drbo.Optimizer) -> None:
    for shown in (opt, opt.pending[0], opt.recommend()):
        markup = shown._repr_html_()
        assert tags(markup) <= {"div", "strong", "table", "tr", "th", "td", "details", "summary", "pre"}
        assert not any(attributes for _, attributes in Elements(markup).elements)
        assert Elements(markup).comments == []


def test_a_terminal_gets_no_control_character(opt: drbo.Optimizer, tmp_path: Path) -> None:
    path = tmp_path / "run\x1b[31m\x07.drbo"
    opt.save(path)
    for arguments in (["show", "--once", str(path)], ["show", "--json", str(path)], ["show", str(path) + "\x1b]0;x"]):
        done = CliRunner().invoke(app, arguments, env={"NO_COLOR": "1", "TERM": "dumb"})
        assert done.exit_code == (1 if path.name not in {Path(a).name for a in arguments} else 0)
        assert all(c.isprintable() or c == "\n" for c in done.output), arguments
    assert console.summary(opt)["pending"][0]["action"].keys() == opt.pending[0].action.keys()


TERMINAL = [HOSTILE[i] for i in (4, 8, 11, 0)]
"""Names of an action's two parameters, then of the two columns of contexts. All of them are labels, too."""
RAW = {"to_frame", "records", "html", "plot"}
"""Queries that return a table of pandas, facts as JSON, a page, or a figure."""
SETS = {
    "mmd": drbo.MMD(),
    "wasserstein": drbo.Wasserstein(order=2, scale=dict.fromkeys(TERMINAL[2:], 1.0)),
    "moments": drbo.Moments({TERMINAL[2]: 0.1}),
    "shares": drbo.Shares({TERMINAL[3]: dict.fromkeys(TERMINAL, (0.1, 0.9))}),
    "intersection": drbo.Intersection(
        drbo.MMD(), drbo.Shares({TERMINAL[3]: {TERMINAL[1]: (0.0, 0.4)}}, free_inside=True)
    ),
}


def _records(value: Any) -> list[Any]:
    """Return an answer and every record inside it."""
    if isinstance(value, list | tuple):
        return [one for item in value for one in _records(item)]
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        inner = [
            one for item in fields if dataclasses.is_dataclass(item) or type(item) is tuple for one in _records(item)
        ]
        return [value, *inner]
    return [] if isinstance(value, str) else [value]


@pytest.mark.parametrize("name", SETS)
def test_nothing_that_is_printed_holds_a_control_character(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """REVIEW V9: every answer, every record inside it and what an optimizer was made of, as text and as repr."""
    monkeypatch.setattr(f"{__name__}.HOSTILE", TERMINAL)
    opt = make(0, SETS[name])
    found: list[Any] = [
        opt,
        opt.configuration.actions,
        opt.configuration.contexts,
        opt.configuration.setting,
        opt.configuration.placed,
        opt.recommend().explain(),
    ]
    found += [drbo.Perturbation({TERMINAL[1]: drbo.Normal(0.0, 0.1)}), *opt.recommend().explain().columns]
    for query, ask in queries.QUERIES.items():
        if query not in RAW:
            try:
                found += _records(ask(opt))
            except (TypeError, ValueError, RuntimeError) as error:  # not every set answers each of them
                found.append(error)
    known = name in ("mmd", "wasserstein")
    found += [opt.recommend(given={TERMINAL[3]: TERMINAL[1]})] if known else []
    assert {type(one).__name__ for one in found} >= {
        "Suggestion", "Recommendation", "Explanation", "RadiusExplanation", "Comparison", "RadiusSensitivity",
        "Probability", "ValueAtRisk", "Classification", "TargetRecommendation", "RadiusProfile", "Result",
        *(("Watch", "Backtest") if known else ()),
    }  # fmt: skip
    for one in found:
        for shown in (str(one), repr(one)):
            assert all(c.isprintable() or c == "\n" for c in shown), (type(one), shown)
            assert "line\nbreak" not in shown, type(one)
    assert r"\x1b[31mred\x1b]0;title\x07\x00" in str(opt.recommend())
    with pytest.warns(UserWarning, match=r"lies far outside of the samples: .*\\u202e"):
        opt.tell(opt.results[0].action, 0.0, context={TERMINAL[2]: 50.0, TERMINAL[3]: TERMINAL[3]})


@pytest.mark.filterwarnings("ignore:Glyph")  # fonts have no control characters
def test_pictures_are_drawn(opt: drbo.Optimizer, tmp_path: Path) -> None:
    """`$` begins mathematics in matplotlib."""
    figures = pytest.importorskip("matplotlib.figure")
    for i, drawn in enumerate((opt.plot.progress(), opt.plot.worst_case())):
        assert isinstance(drawn, figures.Figure)
        drawn.savefig(tmp_path / f"{i}.svg")
        assert "<script" not in (tmp_path / f"{i}.svg").read_text(encoding="utf-8")


def test_files_keep_every_character_and_run_none(opt: drbo.Optimizer, tmp_path: Path) -> None:
    opt.save(tmp_path / "run.drbo")
    loaded = drbo.Optimizer.load(tmp_path / "run.drbo")
    assert loaded.results[0].action == opt.results[0].action
    assert [str(r.context) for r in loaded.results] == [str(r.context) for r in opt.results]
    assert loaded.recommend().value == opt.recommend().value


@pytest.mark.parametrize(
    "named",
    [
        {"kind": "class", "name": "os.system", "arguments": {"kind": "mapping", "items": [["command", "touch run"]]}},
        {
            "kind": "class",
            "name": "subprocess.Popen",
            "arguments": {"kind": "mapping", "items": [["args", "touch run"]]},
        },
        {"kind": "class", "name": "builtins.eval", "arguments": {"kind": "tuple", "items": ["open('run', 'w')"]}},
        {"kind": "enum", "of": "os.system", "name": "touch run"},
        {"kind": "family", "of": "system", "given": {"kind": "mapping", "items": [["command", "touch run"]]}},
        {"kind": "os.system", "arguments": {"kind": "mapping", "items": [["command", "touch run"]]}},
        {"kind": "__import__", "arguments": {"kind": "mapping", "items": [["name", "os"]]}},
        {"kind": "array", "shape": [1], "type": "O", "values": ["open('run', 'w')"]},
        "__import__('os').system('touch run')",
    ],
    ids=lambda named: str(named)[:45],
)
@pytest.mark.parametrize("argument", ["setting", "surrogate", "ambiguity"])
def test_a_file_that_names_code_runs_none(
    argument: str, named: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = drbo.Optimizer([0.0, 1.0], [0.0, 1.0], setting=drbo.Simulator([1, 1], 0.1))
    made.save("good.drbo")
    records = [json.loads(line)["record"] for line in Path("good.drbo").read_text().splitlines()]
    items = dict(records[0]["configuration"]["items"])
    records[0]["configuration"]["items"] = [[name, items[name]] for name in items if name != argument]
    records[0]["configuration"]["items"].append([argument, named])
    Path("bad.drbo").write_bytes(with_checksums(records))
    with pytest.raises(ValueError, match=r"bad\.drbo"):
        drbo.Optimizer.load("bad.drbo")
    assert not Path("run").exists()


# --- studies --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    a, b, c, _ = HOSTILE[:4]
    sampler = RobustSampler(drbo.Samples({c: [*HOSTILE]}), setting=drbo.Simulator(radius=0.1), surrogate=FIXED)
    storage = f"sqlite:///{tmp_path_factory.mktemp('study') / 'study.db'}"
    made = study_of(sampler, study_name="../<b>name\x1b</b>", storage=storage)

    def objective(trial: optuna.Trial) -> float:
        x, label = trial.suggest_float(a, 0.0, 1.0), trial.suggest_categorical(b, HOSTILE)
        return x + len(str(label)) + len(str(trial.suggest_categorical(c, HOSTILE)))

    made.optimize(objective, n_trials=4)
    return made


@pytest.mark.parametrize("draw", [plot_bounds, plot_worst_case, lambda study: plot_radii(study, [0.0, 0.1])])
def test_figures_of_a_study_show_text(study: optuna.Study, draw: Callable[[optuna.Study], Any]) -> None:
    shown = json.loads(draw(study).to_json())
    del shown["layout"]["template"]
    assert not [text for text in _texts(shown) if "<" in text]


def test_attributes_that_dashboards_show_are_numbers(study: optuna.Study) -> None:
    for trial in study.trials:
        for name, value in trial.user_attrs.items():
            assert not name.startswith("drbo:") or isinstance(value, float | int)


def test_the_page_of_a_study_stays_in_its_folder(
    study: optuna.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["report", "--storage", study._storage._backend.url, "--json"])  # type: ignore[attr-defined]
    assert done.exit_code == 0, done.output
    (written,) = folder.iterdir()
    assert list(tmp_path.iterdir()) == [folder]
    assert "<b>" not in written.read_text(encoding="utf-8")
    assert all(c.isprintable() or c == "\n" for c in done.output)


# --- errors ---------------------------------------------------------------------------------------------------------

RED = "\x1b[31mred\x07"
ONE, TWO = {RED: (0.0, 1.0)}, {RED: [0.0, 1.0], "b": [1.0, 2.0]}
MIXED = {RED: ["u", "v"], "b": ["s", "t"]}
SIMULATOR = drbo.Simulator(radius=0.1)


def red(ambiguity: drbo.AmbiguitySet | None = None, contexts: Any = TWO) -> drbo.Optimizer:
    made = contexts if isinstance(contexts, np.ndarray | drbo.Samples) else drbo.Samples(contexts)
    return drbo.Optimizer(drbo.Box(ONE), made, ambiguity=ambiguity, setting=SIMULATOR, surrogate=FIXED)


def perturbed(actions: Any, contexts: Any) -> drbo.Optimizer:
    return drbo.Optimizer(actions, drbo.Perturbation(contexts), setting=SIMULATOR)


def robust_study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return study_of(RobustSampler(drbo.Samples(TWO), setting=SIMULATOR, surrogate=FIXED))


MISTAKES: dict[str, Callable[[], Any]] = {
    "a parameter twice": lambda: drbo.Box(ONE, **{RED: (0.0, 1.0)}),
    "an action without its parameter": lambda: red().tell({"other": 1.0}, 0.0, context=[0.5, 1.5]),
    "an action that is a number": lambda: red().tell(1.0, 0.0, context=[0.5, 1.5]),
    "an action with an unknown parameter": lambda: red().tell({RED: 0.5, f"{RED}2": 0}, 0.0, context=[0.5, 1.5]),
    "an action outside": lambda: red().tell({RED: 2.0}, 0.0, context=[0.5, 1.5]),
    "a context of other columns": lambda: red().tell({RED: 0.5}, 0.0, context={"other": 1.0}),
    "a context of other labels": lambda: red(contexts=MIXED).tell({RED: 0.5}, 0.0, context={RED: RED, "b": "s"}),
    "a context that is too short": lambda: red(contexts=MIXED).tell({RED: 0.5}, 0.0, context=["u"]),
    "a table without a column": lambda: red().predict([{RED: 0.5}], pd.DataFrame({"b": [1.0], f"{RED}2": [1.0]})),
    "a known column that is not there": lambda: red(contexts=MIXED).ask(given={"other": 1.0}),
    "a known label that is not there": lambda: red(contexts=MIXED).ask(given={RED: RED}),
    "labels of no column": lambda: drbo.Samples(TWO, labels={f"{RED}2": drbo.Categorical("u")}),
    "samples without a column": lambda: drbo.Samples({f"{RED}2": [0.5]}, within=drbo.Box(ONE)),
    "samples with too many columns": lambda: drbo.Samples([[0.5, 1.0, 2.0]], within=drbo.Box(ONE)),
    "samples outside": lambda: drbo.Samples({RED: [7.0]}, within=drbo.Box(ONE)),
    "samples of two kinds": lambda: drbo.Samples({RED: ["u", 1.0]}),
    "perturbations of two kinds": lambda: drbo.Perturbation({RED: drbo.Normal(0.0, 1.0), f"{RED}2": [1.0]}),
    "perturbations that are labels": lambda: drbo.Perturbation({RED: ["u", "v"]}),
    "perturbations of points": lambda: perturbed([0.0, 1.0], {RED: drbo.Normal(0.0, 1.0)}),
    "perturbations without names": lambda: perturbed(drbo.Box(ONE), [[0.1], [0.2]]),
    "perturbations of no parameter": lambda: perturbed(drbo.Box(ONE), {"other": drbo.Normal(0.0, 1.0)}),
    "widths twice": lambda: drbo.Moments({RED: 1.0}, **{RED: 1.0}),
    "a width of no column": lambda: red(drbo.Moments({"other": 1.0})).ask(),
    "a width too few": lambda: red(drbo.Moments([1.0])).ask(),
    "a width of labels": lambda: red(drbo.Moments({RED: 1.0}), MIXED).ask(),
    "shares twice": lambda: drbo.Shares({RED: (0.1, 0.9)}, free_inside=False, **{RED: (0.1, 0.9)}),
    "shares of an unknown column": lambda: red(drbo.Shares(u=(0.1, 0.9)), MIXED).ask(),
    "shares of an unknown group": lambda: red(drbo.Shares({RED: {RED: (0.1, 0.9)}}), MIXED).ask(),
    "shares of an unknown number": lambda: red(drbo.Shares({RED: {7.0: (0.5, 0.9)}})).ask(),
    "shares above one": lambda: red(drbo.Shares({RED: {"u": (0.9, 1.0), "v": (0.9, 1.0)}}), MIXED).ask(),
    "a scale of other columns": lambda: red(drbo.Wasserstein(scale={f"{RED}2": 1.0})).ask(),
    "a scale without names": lambda: red(drbo.Wasserstein(scale=(1.0, 1.0))).ask(),
    "no scale": lambda: red(drbo.Wasserstein()).ask(),
    "a scale of points": lambda: red(drbo.Wasserstein(scale={RED: 1.0}), np.array([[0.0], [1.0]])).ask(),
    "scenarios of other columns": lambda: red(drbo.AnyOf([drbo.Samples(MIXED)])).ask(),
    "a log without a column": lambda: drbo.Optimizer.from_frame(TWO, ["other"], ["b"], RED, setting=SIMULATOR),
    "a file that is not there": lambda: drbo.Optimizer.load(f"no{RED}.drbo"),
    "a folder that is no file": lambda: drbo.Optimizer.load(Path(RED)),
    "a file of something else": lambda: drbo.Optimizer.load(Path(RED, RED)),
    "a file that is a folder": lambda: red().save(Path(RED)),
    "a class that is not there": lambda: drbo.knowledge.from_json({"kind": "class", "name": RED, "arguments": None}),
    "wind without rows": lambda: read_wind_csv(Path(RED, RED)),
    "wind that is negative": lambda: WindSeries(RED, np.array(["2014-01-01T00"], "datetime64[h]"), np.array([-1.0])),
    "conditions that are not known": lambda: observe(robust_study().ask(), {f"{RED}2": 1.0}),
    "conditions out of range": lambda: robust_study().ask().suggest_float(RED, 7.0, 8.0),
}  # fmt: skip
"""What users do wrong with names that are escape sequences."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_error_passes_a_control_character_on(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """REVIEW V9: names that users typed are shown in errors, not obeyed."""
    monkeypatch.chdir(tmp_path)
    Path(RED).mkdir()
    Path(RED, RED).write_text("nothing")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises((ValueError, TypeError, OSError, RuntimeError)) as raised:
            MISTAKES[mistake]()
    for said in (str(raised.value), *(str(one.message) for one in caught)):
        assert all(c.isprintable() or c == "\n" for c in said), said
