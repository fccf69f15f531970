"""What things are called on the page."""

from __future__ import annotations

PREDICTORS = {
    "blend": "the default: JE-IRT, MIRT with texts and weighted neighbours, blended",
    "jeirt": "JE-IRT as published: item text in one space with the models",
    "jeirt_context": "JE-IRT plus the model x benchmark mean as an offset",
    "model_mean": "each model's mean score",
    "model_benchmark": "each model's mean score on the benchmark, shrunk",
    "model_subject": "each model's mean score on the subject, shrunk",
    "knn": "mean over the nearest items by text, equal weights",
    "knn_weighted": "mean over the nearest items by text, weighted by similarity",
    "ridge": "ridge regression on the text vector, one per model",
    "embedllm": "EmbedLLM: linear classifier on text vector x model vector",
    "irt_1pl": "1PL (Rasch): one ability a model, one difficulty an item",
    "irt_2pl": "2PL: the same with a discrimination an item",
    "mirt": "multidimensional item response theory, six abilities a model",
    "mirt_text": "MIRT whose items have a prior from their text vectors",
}
SPLITS = {
    "cold-items": "cold items: every response to a tested item was unseen",
    "warm-cells": "warm cells: single responses were held out, their items were known",
    "leave-one-benchmark-out": "each benchmark was predicted from the others",
}
TERMS = (
    ("score", "What a grader gave one answer, from 0 (wrong) to 1 (right); shown times 100."),
    ("[low, high]", "95 % interval: 2,000 bootstrap draws of groups of near-duplicate items, the"
     " models held fixed. It says how far the number would move with other items of the same"
     " kind; it does not cover another run of a model or another prompt. Where all scores are"
     " 0, or all 1, it is Wilson's; under 5 groups there is none."),
    ("near-duplicates", "Items with the same text or nearly the same text vector. They are never"
     " split between learning and test, and count as one in the intervals of scores."),
    ("n", "How many items (or responses, where it says so) a number rests on."),
    ("absent", "A dash: not evaluated. It is never counted as 0."),
    ("cold items", "Items whose responses the predictor had not seen at all: it knows their text"
     " (and benchmark), not how anyone answered."),
    ("JE-IRT", "Joint-embedding item response theory: items and models in one space. An item's"
     " direction u says what it is about, its norm r how hard it is, a model is a point m; the"
     " chance of a right answer is sigmoid(u.m - r)."),
    ("norm r, r - u.m̄", "An item's difficulty in that space, and the same less what the"
     " average model can do in its direction."),
    ("predictor", "Something that says beforehand how likely each model is to get an item right."),
    ("accuracy", "Share of responses on the side of 50 % that was predicted. Higher is better."),
    ("log-loss", "Mean of minus the log of the probability given to what happened, in nats; 0.693"
     " is a coin. Punishes false certainty. Lower is better."),
    ("AUC", "Chance that a right answer was given a higher probability than a wrong one; 0.5 is"
     " guessing. Over all models it mostly reflects which model answers."),
    ("AUC within model", "The same inside one model and split, averaged: does the predictor know"
     " which items the model gets right?"),
    ("ECE", "Expected calibration error: mean distance between predicted and observed share over"
     " 15 bins of equal size. It is above 0 by chance alone. Lower is better."),
    ("difference", "One predictor minus another on the same responses, so that hard items weigh on"
     " both. Bold: the interval leaves out 0."),
    ("no worse", "The bad end of the paired interval is within 0.002 of log-loss (0.3 points of"
     " accuracy). 'Not told apart': the interval holds 0 and is wider than that."),
    ("Spearman", "Rank correlation, from -1 to 1: do harder-looking items turn out harder?"),
    ("observed error", "1 minus the mean over an item's models of (score minus what the model does"
     " on the benchmark beyond its models' mean): who happened to answer does not count."),
    ("item-rest r", "Correlation over models of an item's score with the model's mean on the other"
     " items of the benchmark. Negative: better models fail it more often."),
    ("concept", "A direction in a language model's hidden states that a dictionary (sparse"
     " autoencoder) found; its label is made of the tokens on which it is strongest."),
    ("effect, shrunk", "How much a model's score on a concept's items is below (or above) its mean"
     " on the same benchmark, text length allowed for; shrunk: drawn to 0 by how little it rests"
     " on."),
    ("n effective", "How many items a concept's score effectively rests on: (sum of weights)\u00b2"
     " / sum of squared weights. All items with any of the concept weigh in, so it can be above the"
     " number of active items, on which the concept passes its threshold."),
    ("family p", "The share of 999 shuffles of a model's answers in which some concept looks as"
     " extreme: below 0.05, even one such among all tested is unlikely by chance."),
    ("adjusted", "The effect once what the other models score on the same items is taken off: what"
     " stays is the model's own, what goes is hard (or easy) for everyone."),
    ("q", "Chance-corrected p: among all with q < 0.1, about one in ten is expected to be chance"
     " (Benjamini-Hochberg). For items: that r is negative by chance. For two models: that the"
     " difference is chance."),
)  # fmt: skip
