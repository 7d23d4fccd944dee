"""The interpreters: one loop and one empty rule table each; the rules stand in ``minijax.ops``."""
