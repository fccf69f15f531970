"""Commands about routing: route evaluate, route ask."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say, table
from thetascope.decisions.routing.evaluate import Items
from thetascope.decisions.routing.router import Answer, Router, make_router
from thetascope.decisions.routing.saved import NAME, evaluate_study, load_routing
from thetascope.decisions.routing.wording import (
    POLICIES,
    bases_of,
    cell,
    cost_cell,
    policy_name,
    rows_of,
    sentences,
    tested_sentence,
)
from thetascope.encoders import encoder_for, load_vectors
from thetascope.errors import InputError
from thetascope.service.limits import Limits
from thetascope.study import Study

_MODELS = 12


def evaluate(
    study: Path,
    /,
    *,
    predictor: str = "blend",
    candidates: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    items: Items = "auto",
    seeds: int = 5,
    split_seed: int = 0,
    encoder: str | None = None,
    name: str = NAME,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """What routing is worth on questions that no response was seen of.

    Every policy answers the same cold items with one of the same models: random, the best
    average, the best per benchmark, neighbours, the predictor with and without the guard, and
    the oracle. With costs (cost_usd or tokens and prices; else prices alone) the frontier of
    score against cost, too.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    predictor
        Name of the predictor that routes.
    candidates
        Models that may be chosen, separated by spaces; all where not given.
    items
        complete: only items that every candidate answered; observed: among those that did,
        the same for every policy; auto: complete where that leaves half of the items.
    seeds
        Tenths of the items that are tested, each once (1 to 10).
    split_seed
        Seed of the one partition that all seeds share.
    encoder
        Name of the text vectors; needed where the study has several.
    name
        Name under which the evaluation is kept in the study.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    with progress() as line:
        made = evaluate_study(
            study, predictor, name=name, candidates=candidates, items=items, seeds=seeds,
            split_seed=split_seed, encoder=encoder, progress=line, wait=wait,
        )  # fmt: skip
    found = load_routing(Study.open(study), name).table
    if json:
        print_json({**found, "folder": str(made.folder)})
        return 0
    _print_evaluation(found)
    say("", f"{'kept in' if made.new else 'was already in'} {made.folder}")
    return 0


def ask(
    study: Path,
    text: str | None = None,
    /,
    *,
    file: Annotated[str | None, Parameter(name="--file", allow_leading_hyphen=True)] = None,
    benchmark: str | None = None,
    subject: str | None = None,
    weight: Annotated[float, Parameter(name="--lambda")] = 0.0,
    max_cost: float | None = None,
    candidates: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    predictor: str = "blend",
    encoder: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Say which model to ask, with every model's predicted chance and cost, and why.

    The default (best on the benchmark, or best on average where none is named) is left only
    where the predicted gain exceeds what the guard learnt on validation data.

    Parameters
    ----------
    study
        The study's folder; it needs a kept fit (thetascope fit STUDY --predictor blend).
    text
        The question.
    file
        File that holds the question, - for standard input.
    benchmark
        Benchmark of the study that the question is like.
    subject
        Its subject within the benchmark.
    weight
        Score that one unit of cost is worth.
    max_cost
        Greatest predicted cost of a model that may be chosen.
    candidates
        Models that may be chosen, separated by spaces; all where not given.
    predictor
        Name of the predictor whose fit the study keeps.
    encoder
        Name of the text vectors; needed where the study has several.
    json
        Print one JSON object.
    """
    question = _question(text, file)
    opened = Study.open(study)
    with progress() as line:
        line(0, 0, "reading the fit")
        router = make_router(opened, predictor, encoder)
        line(0, 0, "encoding the question")
        vectors = load_vectors(opened, router.encoder, path=study)
        vector = encoder_for(vectors).encode([question])
    asked = router.questions(texts=[question], vectors=vector, benchmark=benchmark, subject=subject)
    answer = router.route(asked, weight=weight, max_cost=max_cost, candidates=candidates)[0]
    if json:
        print_json({**answer.to_json(), "cost_unit": router.costs.unit, "benchmark": benchmark,
                    "lambda": weight, "max_cost": max_cost})  # fmt: skip
        return 0
    _print_answer(router, answer, benchmark, after_costs=weight > 0)
    return 0


def serve(
    study: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    predictor: str = "blend",
    encoder: str | None = None,
    rate: float = 50.0,
    body_bytes: int = 65536,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Answer over HTTP which model to ask: POST /v1/route and /v1/predict, GET /healthz.

    Read-only: the study is read once, and nothing of a question is kept or logged. There is no
    password; it listens on this machine alone unless --host says otherwise. The paths are
    described by /openapi.json. SIGTERM and Ctrl-C end it once open requests are answered.

    Parameters
    ----------
    study
        The study's folder; it needs a kept fit (thetascope fit STUDY --predictor blend).
    host
        Address to listen on.
    port
        Port; 0 for a free one, which is then printed.
    predictor
        Name of the predictor whose fit the study keeps.
    encoder
        Name of the text vectors; needed where the study has several.
    rate
        Requests a second of one address, on average; 0 for no limit.
    body_bytes
        Greatest body of a request.
    json
        Print the address as one JSON object.
    """
    from thetascope.service.serve import bind, make_service, run_until_stopped

    limits = Limits(body_bytes=body_bytes, rate=rate)
    listening = bind(host, port)
    with progress() as line:
        line(0, 0, "reading the fit and the encoder")
        app, router = make_service(study, predictor, encoder, limits)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    if json:
        print_json({"url": url, "models": len(router.models), "predictor": router.fit.NAME})
    else:
        say(f"{router.fit.NAME} routes to {len(router.models)} models at {url} (Ctrl-C stops it)")
        if not _is_loopback(host):
            say("there is no password: whoever reaches this address may ask")
    sys.stdout.flush()
    run_until_stopped(app, listening)
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _question(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        raise InputError("give the question, or --file with a file's name (- for standard input)")
    if file is not None:
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            text = data.decode("utf-8-sig")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=file) from None
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8 (byte {error.start})", file=file) from None
    if not text or not text.strip():
        raise InputError("the question is empty")
    return text.strip()


def _print_evaluation(found: dict[str, Any]) -> None:
    rows = rows_of(found, "all")
    bases = bases_of(found)
    head = ["policy", "", "score %", *(f"minus {POLICIES[b]}" for b in bases), "cost", "left %"]
    table(
        tested_sentence(found),
        head,
        [
            [policy_name(r["policy"], found["router"]), r["policy"], cell(r, "score"),
             *(cell(r, f"minus_{b}", "+") for b in bases), cost_cell(r),
             "" if r["left_default"] is None else f"{100 * r['left_default']:.0f}"]
            for r in rows
        ],
        left=2,
    )  # fmt: skip
    say("", *sentences(found))


def _print_answer(
    router: Router, answer: Answer, benchmark: str | None, *, after_costs: bool
) -> None:
    unit = router.costs.unit
    head = ["model", "predicted %", *(["cost"] if unit else [])]
    rows = [
        [model, f"{100 * chance:.1f}", *([_cost(answer.costs[model])] if unit else [])]
        for model, chance in list(answer.chances.items())[:_MODELS]
    ]
    more = len(answer.chances) - len(rows)
    table(f"{len(answer.chances)} candidates" + (f" (cost: {unit})" if unit else ""), head, rows)
    if more > 0:
        say(f"and {more} more")
    if answer.left_out:
        first = next(iter(answer.left_out.items()))
        say(f"left out: {len(answer.left_out)} models, first {first[0]}: {first[1]}")
    base = "best on average" if benchmark is None else f"best on {benchmark}"
    base += " after costs" if after_costs else ""
    say("", f"ask {answer.model}")
    gap, tau = f"{100 * answer.gap:.1f}", f"{100 * answer.tau:.1f}"
    if answer.best == answer.default:
        say(f"it is {base}, and no other is predicted to do better here")
    elif not answer.guarded:
        say(f"it leads {answer.default} ({base}) by {gap} points, above the guard's {tau}")
    elif answer.tau == float("inf"):
        say(f"it is {base}; leaving it never paid on validation data, so {answer.best} (ahead by"
            f" {gap} points) is not taken")  # fmt: skip
    else:
        say(f"it is {base}; {answer.best} leads by {gap} points, within the guard's {tau}")


def _cost(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
