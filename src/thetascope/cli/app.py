"""The table of commands; each is imported when it is called."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any, NoReturn

from cyclopts import App, CycloptsError
from cyclopts.config import Dict, Toml
from rich.console import Console

from thetascope.errors import InputError

_COMMANDS = (
    ("import", "data:import_", "Read evaluation results into a study."),
    ("doctor", "data:doctor", "Look a study over: duplicates, suspect items, stale folders."),
    ("encode", "data:encode", "Make text vectors of the study's items."),
    ("attach-texts", "data:attach_texts", "Add texts to a study that has none."),
    ("fit", "predict:fit", "Fit JE-IRT, or another predictor, and keep it."),
    ("compare", "predict:compare", "Compare predictors of who gets what right, on unseen data."),
    ("diagnose", "diagnose:diagnose", "Why one number is not enough: noise beside every claim."),
    ("forecast", "predict:forecast", "Expected scores on questions that nobody has answered."),
    ("diff", "predict:diff", "What changed between two models, with q-values."),
    ("space difficulty", "space:difficulty", "How hard items are, foreseen from their texts."),
    ("space taxonomy", "space_items:taxonomy", "Clusters of items as the answers suggest them."),
    ("space probe", "space_items:probe", "An axis from two sets of items; items and models on it."),
    ("space ood", "space:ood", "What is lost on a benchmark never seen, and can it be foreseen."),
    ("space models", "space:models", "Which models answer alike, and which few cover all."),
    ("onboard", "decide:onboard", "Score a new model from some of its answers."),
    ("next-items", "decide:next_items", "Say which items a new model should answer next."),
    ("tiny", "standing:tiny", "Choose a few items that stand for a benchmark."),
    ("leaderboard", "standing:leaderboard", "Rank all models, holes completed, with intervals."),
    ("route evaluate", "route:evaluate", "What routing is worth on unseen questions."),
    ("route ask", "route:ask", "Say which model to ask, and why."),
    ("route serve", "route:serve", "Answer over HTTP which model to ask."),
    ("design", "design:design", "Choose items to add to a benchmark, or to keep of it."),
    ("concepts extract", "concepts:extract", "Say what a study's items are about: activations."),
    ("concepts label", "label:label", "Give a study's concepts labels."),
    ("concepts group", "group:group", "Put concepts into named themes, and score models on them."),
    ("concepts train", "concepts:train", "Train a dictionary (SAE) on a language model."),
    ("gaps", "gaps:gaps", "What benchmarks cover and where models are weak, with q-values."),
    ("report", "show:report", "Write one self-contained HTML page about a study."),
    ("explore", "explore:explore", "See a study in the browser."),
    ("publish", "explore:publish", "Write that page as static files, for any web server."),
    ("export", "data:export", "Write a study in another tool's format."),
    ("demo", "show:demo", "Do the whole pass on the bundled real study."),
)
"""Name, place and help; a name of two words is a command of the group of its first."""
_GROUPS: dict[str, str] = {
    "space": "What a fitted space says of items and models.",
    "route": "Which model to ask: policies, their worth, an answer, a service.",
    "concepts": "What a language model's hidden states are about.",
}
"""What the first word of such names stands for."""


def build() -> App:
    """The app with its commands, none of them imported yet."""
    app = App(
        name="thetascope",
        help="See what language models can and cannot do, item by item.",
        help_epilogue="Every command takes --json, --debug and --config FILE.toml (a table per"
        " command; flags override it). `thetascope demo` shows it all in a minute or two.",
        version=version("thetascope"),
        error_console=Console(stderr=True),
        suppress_keyboard_interrupt=False,
    )
    groups: dict[str, App] = {}
    for turn, (name, place, help_text) in enumerate(_COMMANDS):
        first, _, second = name.partition(" ")
        owner = app
        if second:
            if first not in groups:
                groups[first] = App(name=first, help=_GROUPS[first], sort_key=turn)
                app.command(groups[first])
            owner = groups[first]
        owner.command(
            f"thetascope.cli.{place}", name=second or first, help=help_text, sort_key=turn
        )
    return app


def run(arguments: list[str]) -> int:
    """Parses and runs a command line; returns its exit status."""
    app = build()
    arguments, config = _configuration(arguments)
    if config:
        app.config = tuple(config)
    try:
        result = app(
            arguments, exit_on_error=False, print_error=False, result_action="return_value"
        )
    except CycloptsError as error:
        _refuse(error)
    return result if isinstance(result, int) else 0


def _refuse(error: CycloptsError) -> NoReturn:
    text = " ".join(str(error).split())
    raise InputError(f"{text} Try: thetascope --help") from None


def _configuration(arguments: list[str]) -> tuple[list[str], list[Any]]:
    """Takes `--config FILE` and `--preset NAME` out: both give defaults that flags override."""
    rest: list[str] = []
    config: list[Any] = []
    queue = iter(arguments)
    for argument in queue:
        name, equals, value = argument.partition("=")
        if name not in ("--config", "--preset"):
            rest.append(argument)
            continue
        given = value if equals else next(queue, None)
        if not given:
            raise InputError(f"{name} needs a value")
        config.append(_toml(given) if name == "--config" else _preset(given))
    return rest, config


def _toml(file: str) -> Toml:
    import tomllib
    from pathlib import Path

    try:
        content = tomllib.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", file=file) from None
    known = {name.replace(" ", ".") for name, _, _ in _COMMANDS}
    groups = {name.partition(".")[0] for name in known if "." in name}
    for key, value in content.items():
        inside = value if key in groups and isinstance(value, dict) else {"": value}
        for inner, table in inside.items():
            name = f"{key}.{inner}" if inner else key
            if name not in known or not isinstance(table, dict):
                raise InputError(
                    f"expected a table per command ({', '.join(f'[{n}]' for n in sorted(known))})",
                    file=file,
                    field=name,
                )
    return Toml(file, must_exist=True)


def _preset(name: str) -> Dict:
    from thetascope.predictors import PRESETS

    if name not in PRESETS:
        raise InputError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    settings = {k.replace("_", "-"): v for k, v in PRESETS[name].items()}
    return Dict({"fit": settings}, source=f"preset {name}")


def stdout_is_terminal() -> bool:
    """Whether a person looks at the output."""
    return sys.stdout.isatty()
