"""Language model + dictionary (SAE) -> concept activations; dictionaries and their training.

    lm = LanguageModel(LanguageModelConfig("offline", hook="14"))
    dictionary = read_dictionary("offline")
    check_pair(lm, dictionary)
    for read in lm.read(texts):                  # hidden states of the texts' own tokens
        rows = dictionary.encode(read.states)    # sparse rows of activations
    extract("my-study")                          # all of it, for a study's items
    load_concepts(open("my-study")).csr()        # items x concepts, read without torch

Importing this room loads no torch; running a language model or a dictionary does.
"""

from thetascope.concepts.corpus import Corpus, read_corpus
from thetascope.concepts.dictionary import (
    Dictionary,
    DictionaryInfo,
    DictionaryWeights,
    SparseRows,
)
from thetascope.concepts.extract import ExtractResult, extract
from thetascope.concepts.fit import SelfCheck, check_on_texts, check_pair, self_check
from thetascope.concepts.formats import Overrides, read_dictionary
from thetascope.concepts.hook import Hook, parse_hook
from thetascope.concepts.language_model import HiddenStates, LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.store import Concepts, load_concepts
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.train_dictionary import TrainResult, train_dictionary

__all__ = [
    "Concepts",
    "Corpus",
    "Dictionary",
    "DictionaryInfo",
    "DictionaryWeights",
    "ExtractResult",
    "HiddenStates",
    "Hook",
    "LanguageModel",
    "LanguageModelConfig",
    "Overrides",
    "SelfCheck",
    "SparseRows",
    "TrainConfig",
    "TrainResult",
    "check_on_texts",
    "check_pair",
    "extract",
    "load_concepts",
    "parse_hook",
    "read_corpus",
    "read_dictionary",
    "self_check",
    "train_dictionary",
]
