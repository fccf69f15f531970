"""Which model to ask: policies, their costs, and what they are worth on unseen questions."""
