"""Runs under an interpreter that has inspect_ai (`make inspect-peer` makes one), not thetascope.

make FILE N        writes a log of N samples as Inspect does
time FILE...       prints the seconds (clock and CPU) that `samples_df` takes, and its rows
read FILE...       reads logs whole; prints for each its samples' ids, epochs and scores
"""

from __future__ import annotations

import json
import sys
import time
import zipfile

from inspect_ai.analysis import samples_df
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    read_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score

SHOTS = "Question: what is one and one, and how do you know? Answer: two, by counting. " * 24
MODEL = "maker/model"


def sample(i: int) -> EvalSample:
    """A graded answer of ordinary size: a prompt with examples, a short explanation."""
    question = f"What is {i} times {i % 97}, and why would somebody want to know it?"
    said = f"It is {i * (i % 97)}. " + "Because of that and for no other reason. " * 8
    asked = [ChatMessageSystem(content=SHOTS), ChatMessageUser(content=question)]
    answer = ChatMessageAssistant(content=said, source="generate", model=MODEL)
    return EvalSample(
        id=i,
        epoch=1,
        input=asked,
        target=str(i * (i % 97)),
        messages=[*asked, answer],
        output=ModelOutput(model=MODEL, choices=[ChatCompletionChoice(message=answer)]),
        scores={"match": Score(value="C" if i % 3 else "I", answer=str(i), explanation=said)},
        metadata={"subject": f"sums {i % 7}"},
        model_usage={MODEL: ModelUsage(input_tokens=700, output_tokens=90, total_tokens=790)},
    )


def make(file: str, n: int) -> None:
    """Writes a log of one model on one task, member by member.

    `write_eval_log` takes minutes for 20,000 samples; these are the members that it writes.
    """
    accuracy = EvalMetric(name="accuracy", value=2 / 3)
    scores = [EvalScore(name="match", scorer="match", metrics={"accuracy": accuracy})]
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created="2025-01-01T00:00:00+00:00",
            task="made",
            dataset=EvalDataset(name="made", samples=n),
            model=MODEL,
            config=EvalConfig(epochs=1),
        ),
        results=EvalResults(total_samples=n, completed_samples=n, scores=scores),
    )
    summaries = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(n):
            made = sample(i)
            archive.writestr(
                f"samples/{i}_epoch_1.json", made.model_dump_json(indent=2, exclude_none=True)
            )
            summaries.append(made.summary().model_dump(mode="json", exclude_none=True))
        archive.writestr("summaries.json", json.dumps(summaries))
        archive.writestr("header.json", log.model_dump_json(exclude_none=True, exclude={"samples"}))


def main(what: str, *args: str) -> None:
    """Does one of the three."""
    if what == "make":
        make(args[0], int(args[1]))
    elif what == "time":
        start, cpu = time.perf_counter(), time.process_time()
        rows = len(samples_df(list(args), quiet=True))
        taken = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        sys.stdout.write(json.dumps({**taken, "rows": rows}) + "\n")
    else:
        for file in args:
            found = [
                [s.id, s.epoch, {k: v.value for k, v in (s.scores or {}).items()}]
                for s in read_eval_log(file).samples or []
            ]
            sys.stdout.write(json.dumps(found) + "\n")


main(*sys.argv[1:])
