"""The full-screen stepper. ``minijax.tools.stepper.panes`` computes the contents of its panes."""
