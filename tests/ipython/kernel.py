"""Run notebooks without a front end, in a real kernel of this environment's Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient


class ThisPython(KernelSpecManager):
    """A kernel spec of this environment's Python that need not be installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="this Python", language="python")


def executed(sources: Iterable[str], home: Path) -> Any:
    """Run these cells in a notebook in the folder ``home``, and return the notebook."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        manager = AsyncKernelManager(
            kernel_name="python3", kernel_spec_manager=ThisPython(), connection_file=str(home / "connection.json")
        )
        client = NotebookClient(
            made, km=manager, timeout=120, allow_errors=True, resources={"metadata": {"path": str(home)}}
        )
        client.execute(cleanup_kc=True)  # otherwise the kernel runs until the tests end
    return made
