"""The interpreters: each has one loop and one rule table. ``minijax.ops`` fills the tables with rules."""
