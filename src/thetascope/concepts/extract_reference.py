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


_COLUMNS = ("tokens", "token_share", "density", "act_max", "n_fired")


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
            self.about = _about(place / ABOUT)
            self.words = f"{self.about['corpus']}, {self.about['n_tokens']:,} tokens"
        else:
            self.identity = self.words = None

    @classmethod
    def of(cls, dictionary: str | Path, corpus: Corpus | None, n_tokens: int) -> Reference:
        """Returns the reference that an extraction uses.

        Raises:
            InputError: The dictionary's own cannot be read, or no token is asked for.
        """
        if n_tokens < 1:
            raise InputError(
                f"expected at least 1 token, found {n_tokens}", field="reference_tokens"
            )
        place = dictionary_folder(dictionary)
        own = (place / TABLE).is_file() and (place / ABOUT).is_file()
        if not own or corpus is not None:
            return cls(corpus, None, n_tokens)
        _read(place / TABLE)  # said before a model is loaded
        return cls(None, place, n_tokens)

    def table(
        self, job: Extraction, work: Path, progress: Callable[[int, int, str], None] | None
    ) -> pl.DataFrame | None:
        """What each concept does on the reference; made in the work folder where need be."""
        if self._place is not None:
            table = _read(self._place / TABLE)
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


def _about(file: Path) -> dict[str, Any]:
    """Of which corpus a dictionary's reference is."""
    try:
        told = files.read_json(file)
        return {"corpus": str(told["corpus"]), "n_tokens": int(told["n_tokens"])}
    except (ValueError, KeyError, TypeError):
        raise InputError("expected an object with corpus and n_tokens", file=file) from None


def _read(file: Path) -> pl.DataFrame:
    try:
        table = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError):
        raise InputError("is damaged: it cannot be read as Parquet", file=file) from None
    missing = [name for name in _COLUMNS if name not in table.columns]
    if missing:
        raise InputError("expected this column", file=file, field=missing[0])
    return table


def dictionary_folder(dictionary: str | Path) -> Path:
    """Returns where a dictionary's files are: its folder, or the file that it is."""
    found = find(str(dictionary))
    return Path(dictionary).expanduser() if found is None else found.place
