"""Names of clusters by a language model: what do these questions have in common?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thetascope.llm import Endpoint

N_TEXTS, N_LETTERS, LONGEST = 12, 400, 60
PROMPT = """\
Below are questions of one cluster of a benchmark. The words that set the cluster apart from the
others are: {terms}.

{texts}

What do these questions have in common that others would not? Answer with a name of at most five
words, nothing else."""


def name_questions(
    clusters: Sequence[dict[str, Any]], nearest: Sequence[Sequence[str]]
) -> list[str]:
    """The question about every cluster.

    Args:
        clusters: As `Taxonomy.to_json` gives them.
        nearest: Texts of the items nearest to each cluster's centre; the first twelve are
            shown, each cut at 400 letters.
    """
    out = []
    for cluster, texts in zip(clusters, nearest, strict=True):
        shown = "\n\n".join(f"- {' '.join(t.split())[:N_LETTERS]}" for t in texts[:N_TEXTS])
        out.append(PROMPT.format(terms=cluster["name"] or "(none)", texts=shown))
    return out


def written_names(questions: Sequence[str], endpoint: Endpoint) -> list[str]:
    """The answers, each as one line of sixty letters at most.

    Raises:
        InputError: As `Endpoint.ask`.
    """
    found = []
    for question in questions:
        line = " ".join(endpoint.ask(question).split()).strip(" \"'.")
        found.append(line[:LONGEST])
    return found
