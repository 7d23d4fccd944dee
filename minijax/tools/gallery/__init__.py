"""Recordings of whole programs, to step through without running anything. Each is one training step of one program.

The programs are in ``tests/programs`` of the repository, one page each, and are written for JAX. A recording holds the
text of its page. ``python -m tests.programs.record`` writes the files again; tests compare them with the pages.
"""

from __future__ import annotations

from pathlib import Path

from minijax.tools.recording import storage
from minijax.tools.recording.records import Recording

# page -> the first sentence of its text
PAGES = {
    "mlp": "A perceptron with one hidden layer learns to read handwritten digits.",
    "adam": "One step of Adam, written out: what an optimizer does with a gradient.",
    "cnn": "A convolutional network reads handwritten digits.",
    "transformer": "A transformer learns to write this file, a character after the other.",
    "lstm": "An LSTM predicts waves: a recurrent network is a ``scan`` of its cell.",
    "vae": "A variational autoencoder: digits as clouds of points in four dimensions, and back.",
    "kalman": "A Kalman filter follows a thing through noise, and its likelihood finds how much noise there is.",
    "hmc": "Hamiltonian Monte Carlo: many chains draw from a bent density, side by side.",
    "neural_ode": "A neural ordinary differential equation learns a spiral; its gradient solves another equation.",
    "implicit_layer": "A layer that is defined by an equation: what it gives is the fixed point of a function.",
    "private_descent": "Gradients of single examples: a model that no single example can mark much.",
    "gaussian_process": "A Gaussian process draws a curve with its doubt through points, and learns how smooth it is.",
    "graph_network": "A graph network finds two circles of friends from who knows whom.",
    "equinox_training": "A model of Equinox, trained with Optax: the model is itself the tree of parameters.",
    "flax_training": "A model of Flax, trained with Optax: a description, and a tree of parameters beside it.",
}


def path(page: str) -> Path:
    """The recording file of ``page``, one of ``PAGES``."""
    return Path(__file__).with_name(f"{page}.rec")


def recording(page: str) -> Recording:
    """One training step of ``page``, one of ``PAGES``, operation by operation."""
    return storage.load(path(page))


def program(recorded: Recording) -> str:
    """The text of the page whose program was recorded."""
    return next(source.text for source in recorded.sources if source.file == recorded.source)
