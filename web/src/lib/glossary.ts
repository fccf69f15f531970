/** Every term that a newcomer may not know, in a sentence or two. */
export const GLOSSARY: Record<string, string> = {
  interval:
    "95 % interval: the range that holds the true value 95 times of 100 when data like these are drawn again. Items that are nearly the same count together.",
  n: "How many items the figure rests on.",
  score: "Mean score over the items, from 0 to 100 %.",
  concept_score:
    "Score on the concept's items, weighted by how active it is there; over several benchmarks, the mean of all on which it leaves a trace, each counted alike however few of its items carry it. The effect and the difference of two models weigh items instead, so they need not agree with a subtraction of scores. The test (q) compares with items of the same benchmarks and lengths, so a sure weakness may have an interval that holds the model's overall mean. Near-duplicates count one by one here: on a benchmark made of variants of few questions, such intervals and q are too sure.",
  error: "Mean error over all models that answered: 0 % when every model is right, 100 % when none is.",
  difficulty:
    "How hard an item is in the learned space: the length r of its vector. It is the ability along the item's direction that gives an even chance. Models are more able in some directions than in others, so compare items that lie in like directions; how hard an item was, all in all, says its observed error.",
  space:
    "The learned space (JE-IRT): every item is an arrow whose direction says what it is about and whose length says how hard it is; every model is a point. A model is likely right where it reaches further along the item's direction than the item is long.",
  projection:
    "The space has many dimensions. The map shows the two along which items' directions differ most; items that lie apart are different, items that lie together may still differ in what is not shown.",
  predicted: "The chance of a right answer by the fitted model. These items were part of the fit, so this is no forecast.",
  surprise: "Actual score less predicted chance: where a model does better or worse than the space expects of it.",
  concept:
    "A direction that a sparse autoencoder found inside a language model. It is active on some texts; its label names what these have in common. Labels are guesses: look at the items.",
  coverage: "How much a benchmark asks for a concept: its activation, averaged over the benchmark's items (χ).",
  missing: "A concept that reaches the threshold (a share of its largest activation) on no item of the benchmark. It may still leave weaker traces.",
  effect:
    "Score on the concept's items (weighted by activation) less what the model scores on items of the same benchmarks and lengths. Below 0: weak.",
  shrunk:
    "The effect, pulled towards 0 by as much as noise alone would spread it. Lists are ordered by it, so that a concept with few items does not lead by luck.",
  adjusted:
    "What is left of the effect once the other models' scores on the same items are taken into account. Near 0: the items are just hard. Far below 0: the weakness is this model's own.",
  q: "q-value: among all that are called at this q or less, this share are expected to be false. Below .05 counts as sure here.",
  p_family: "Chance that even one concept of the whole list would look this extreme if concepts had nothing to do with scores. Kept for the models in focus only; thetascope gaps STUDY --model NAME makes it for another.",
  n_eff: "Effective number of items: how many equally strong items would tell as much. Weak activations count a little, too, so it may exceed the items on which the concept passes the threshold.",
  item_rest:
    "Correlation of this item with the rest of its benchmark. Below 0: better models fail it more often than worse ones, as with a wrong reference answer.",
  mislabelled: "The correlation with the rest of the benchmark is negative, and surely so (q < .05). A wrong reference answer or an ambiguous question often is the cause. Check before you drop it.",
  duplicate: "Items whose texts are nearly the same. They count as one when intervals are made.",
  information:
    "How much an answer to the item tells about a model's ability (Fisher information), averaged over the study's models; by the item bank where there is one, else by the fit. An item that all get right tells the least. One that nobody gets right is taken to be just beyond the best models, where an answer tells much; it may as well be broken.",
  elsewhere:
    "Score on the selection less what the model scores on the other items of the same benchmarks, mixed as in the selection, in points.",
  cluster: "A group of items whose directions in the space are alike; found from the answers, not from names.",
  probe: "An axis that you made from two sets of items; items and models are projected on it.",
  flags:
    "near-universal: active nearly everywhere; format: follows the layout of texts, not their content; position: bound to a place in the text; rare: seen on too few items to be sure. Such concepts explain little.",
  kappa: "Error consistency: agreement of two models beyond what their scores alone would give. 1: always right and wrong together.",
  redundant: "Two models whose answers agree as much as those of one model served by two hosts.",
  overlap: "Cosine of two benchmarks' coverages: 1 when they ask for the same concepts in the same proportion, 0 when for none in common.",
  log_ratio: "Log of how much more often the benchmark asks for the concept than the reference (the other benchmarks, or the data named). 0: alike; +0.7: twice as often.",
  guard: "The default model is left only where the predicted gain is larger than what validation data showed to be noise.",
  chance: "Predicted chance that the model answers this question right.",
  onboard: "A new model is placed among the known ones from a few of its answers; nothing else moves.",
};
