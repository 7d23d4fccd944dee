"""Pictures of where arrays lie: drawn where each part's devices can be read, a table elsewhere."""

from __future__ import annotations

import pytest

from minijax.tools.values.shards import MOST_PARTS, _has_room


@pytest.mark.parametrize(
    ("rows", "columns", "devices", "drawn"),
    [
        (4, 2, "CPU 0,1", True),
        (1, 25, "CPU 24", True),
        (1, 26, "CPU 24", False),  # boxes of two columns, which stand on more than a page is wide
        (1, 8, "CPU 100-1023", True),
        (1, 9, "CPU 100-1023", False),
        (MOST_PARTS, 1, "TPU 0", True),
        (MOST_PARTS + 1, 1, "TPU 0", False),
    ],
)
def test_a_picture_names_the_devices_of_every_part(rows: int, columns: int, devices: str, drawn: bool) -> None:
    assert _has_room([[devices] * columns] * rows) == drawn
