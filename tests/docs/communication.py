"""The programs of the page on communication, over every mesh: ``python -m tests.docs.communication``.

The bytes that each device sends must be those that the page's model says, and over 2, 4 and 8 devices those of
simulated meshes too, collective by collective. The page itself holds some of these meshes to the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.site.build import text_of

MESHES = """
import table
from minijax.sharding import AbstractMesh
from minijax.tools.metal.collectives import of_lowered
from table import block, lowered, mesh_of, mlp, row

def listed(layer, layout, mesh):
    found = of_lowered(lowered(layer, layout, mesh))
    return [(each.kind, each.times, each.bytes, each.size, each.axes) for each in found]

for layer in (mlp, block):
    along = [(layout, n, 1) for layout in ("data", "sharded") for n in (2, 4, 8, 16, 64, 256, 512, 1024)]
    across = [("tensor", 1, n) for n in (2, 4, 8, 16, 64)]
    both = [("tensor", n, m) for n, m in ((2, 2), (2, 4), (4, 2), (8, 8), (8, 64), (16, 64))]
    for layout, n, m in along + across + both:
        print(row(layer, layout, n, m), flush=True)
        if n * m <= 8:
            simulated = listed(layer, layout, AbstractMesh((n, m), ("data", "tensor")))
            assert simulated == listed(layer, layout, mesh_of(n, m)), simulated
"""


def files() -> dict[str, str]:
    """The page's programs, by their names."""
    blocks = re.findall(r"^```python (\S+)\n(.*?)^```$", text_of("communication"), re.MULTILINE | re.DOTALL)
    return dict(blocks)


def main() -> int:
    """Print a row for each mesh; 1 if one is not as the model says."""
    with tempfile.TemporaryDirectory() as name:
        for file, code in files().items():
            Path(name, file).write_text(code, encoding="utf-8")
        path = os.pathsep.join([name, *filter(None, sys.path)])
        environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
        return subprocess.run([sys.executable, "-c", MESHES], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
