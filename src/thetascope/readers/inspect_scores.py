"""Scores of Inspect samples: which scorer counts, and its value as a number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.values import choose, describe, parse_score

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "no": 0.0}


class ScorerChoice:
    """Chooses one scorer for a whole log.

    Attributes:
        chosen: The scorer, or 'scorer/key' where its value is an object; None so far.
    """

    def __init__(self, option: str | None, file: Path) -> None:
        self.option, self.file = option, file
        self.chosen: str | None = None

    def value(self, scores: Mapping[str, Any], record: str) -> Any:
        """Returns the value that counts of a sample's scores, None where it has none.

        Raises:
            InputError: Several could be meant, or the one chosen is not there at all.
        """
        values = _flat(scores)
        if not values:  # an empty object
            return None
        if self.option is not None:
            name = choose(self.option, list(values))
            if name is None:
                if self.chosen is not None:
                    return None  # this sample was not scored by it
                raise InputError(
                    f"has no scorer {self.option!r}; there are {', '.join(values)}",
                    file=self.file,
                    record=record,
                )
        else:
            name = self._only(values, record)
        if self.chosen is not None and name != self.chosen:
            raise self._several([self.chosen, name], record)
        self.chosen = name
        return values[name]

    def _only(self, values: Mapping[str, Any], record: str) -> str:
        if len(values) > 1:
            raise self._several(list(values), record)
        return next(iter(values))

    def _several(self, names: list[str], record: str) -> InputError:
        return InputError(
            f"has the scores {', '.join(names)}",
            file=self.file,
            record=record,
            fix=f"choose one with --metric, e.g. --metric {names[0]}",
        )


def grade(value: Any, *, file: Path, record: str, field: str, scale: float) -> float | None:
    """Returns an Inspect value as a score in [0, 1]; None where it says 'unscored' (NaN).

    C is 1, I and N are 0, P is 0.5. Inspect itself takes every other word, list and object
    for 0; here they are errors.

    Raises:
        InputError: The value is no score.
    """
    if isinstance(value, str):
        known = _GRADES.get(value, _GRADES.get(value.lower()))
        if known is not None:
            return known
        try:
            return parse_score(value, file=file, record=record, field=field, scale=scale)
        except InputError as error:
            if error.fix is not None:
                raise
            raise InputError(
                f"expected C, I, P, N or a number, found {value[:60]!r}",
                file=file,
                record=record,
                field=field,
                fix="choose another scorer with --metric",
            ) from None
    if isinstance(value, (list, dict)):
        raise InputError(
            f"expected C, I, P, N or a number, found {describe(value)}",
            file=file,
            record=record,
            field=field,
            fix="choose another scorer with --metric",
        )
    return parse_score(value, file=file, record=record, field=field, scale=scale)


def _flat(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Values by scorer; an object's entries by 'scorer/key'."""
    values: dict[str, Any] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, Mapping) else score
        if isinstance(value, Mapping):
            values.update({f"{name}/{key}": entry for key, entry in value.items()})
        else:
            values[name] = value
    return values
