"""Over what corpus each concept's maximum is taken: the dictionary's own, or one that is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from thetascope.concepts.corpus import Corpus
from thetascope.concepts.extraction import Extraction
from thetascope.concepts.formats.catalogue import find
from thetascope.concepts.harvest import harvest
from thetascope.concepts.reference import ABOUT, TABLE, concept_reference
from thetascope.errors import InputError
from thetascope.study import files

if TYPE_CHECKING:
    from collections.abc import Callable


class Reference:
    """Where the maxima come from: a corpus that is given, the dictionary's own, or nowhere.

    Attributes:
        identity: What decides them, as JSON.
        words: The corpus and its tokens, for a person; None where there is none.
        about: The same for the manifest; filled in by `table` for a corpus that is given.
    """

    def __init__(self, corpus: Corpus | None, place: Path | None, n_tokens: int) -> None:
        self._corpus, self._place, self._n_tokens = corpus, place, n_tokens
        self.about: dict[str, Any] | None = None
        if corpus is not None:
            self.identity: Any = [files.hash_json(corpus.texts), n_tokens]
            self.words: str | None = corpus.name
        elif place is not None:
            self.identity = files.hash_file(place / TABLE)
            told = files.read_json(place / ABOUT)
            self.about = {"corpus": told["corpus"], "n_tokens": told["n_tokens"]}
            self.words = f"{told['corpus']}, {told['n_tokens']:,} tokens"
        else:
            self.identity = self.words = None

    @classmethod
    def of(cls, dictionary: str | Path, corpus: Corpus | None, n_tokens: int) -> Reference:
        """Returns the reference that an extraction uses."""
        place = dictionary_folder(dictionary)
        own = (place / TABLE).is_file() and (place / ABOUT).is_file()
        return cls(corpus, place if own and corpus is None else None, n_tokens)

    def table(
        self, job: Extraction, work: Path, progress: Callable[[int, int, str], None] | None
    ) -> pl.DataFrame | None:
        """What each concept does on the reference; made in the work folder where need be."""
        if self._place is not None:
            table = pl.read_parquet(self._place / TABLE)
            if table.height != job.dictionary.info.n_latents:
                raise InputError(
                    f"has {table.height} rows, the dictionary {job.dictionary.info.n_latents}"
                    " concepts",
                    file=self._place / TABLE,
                )
            return table
        if self._corpus is None:
            return None
        states = harvest(
            job.model, self._corpus.texts, work / "reference", n_tokens=self._n_tokens,
            progress=progress,
        )  # fmt: skip
        self.about = {"corpus": self._corpus.name, "n_tokens": states.total}
        self.words = f"{self._corpus.name}, {states.total:,} tokens"
        return concept_reference(job.dictionary, states, job.model.token_texts, progress)


def dictionary_folder(dictionary: str | Path) -> Path:
    """Returns where a dictionary's files are: its folder, or the file that it is."""
    found = find(str(dictionary))
    return Path(dictionary).expanduser() if found is None else found.place
