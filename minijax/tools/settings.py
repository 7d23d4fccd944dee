"""What a user of the microscope can choose, apart from the engine's own settings (``minijax.config``)."""

from __future__ import annotations

from minijax.tools.views import PANELS


class Settings:
    """One session's choices.

    Attributes:
      panels: the panels shown after a line; () for none.
      style: jaxprs as JAX prints them ('jax'), or in the tutorial's plainer style ('tutorial').
      frames: the frames of a traceback: the user's ('user'), or all ('all').
    """

    def __init__(self) -> None:
        self.panels: tuple[str, ...] = PANELS
        self.style = "jax"
        self.frames = "user"


# name -> the values it can take (panels are a list of words)
CHOICES: dict[str, tuple[str, ...]] = {
    "panels": PANELS,
    "style": ("jax", "tutorial"),
    "frames": ("user", "all"),
}
