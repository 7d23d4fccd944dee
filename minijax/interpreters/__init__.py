"""The interpreters: one loop and one empty rule table each. ``minijax.ops`` fills the tables with rules."""
