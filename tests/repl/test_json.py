"""``--json``: every line of output is one object, whatever the inputs print, raise or contain."""

from __future__ import annotations

import json
from typing import Any

from tests.repl.test_batch import repl

FIELDS = {"format", "number", "input", "value", "shown", "printed", "error", "panels"}


def objects(*arguments: str, given: str | None = None) -> tuple[list[dict[str, Any]], int]:
    done = repl("--json", *arguments, given=given)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_a_session():
    found, code = objects(
        given="def f(x): return sin(x) * 2. - x\ngrad(f)(3.)\nprint('a\\nb'); 7\n1 / 0\n%hlp\njit(f)(3.)\n"
    )
    assert code == 1
    assert [each["number"] for each in found] == [1, 2, 3, 4, 5, 6]
    assert all(each.keys() == FIELDS and each["format"] == 1 for each in found)
    definition, grad, printing, error, usage, jit = found
    assert definition["value"] is None and definition["panels"] is None and definition["error"] is None
    assert grad["value"] == grad["shown"] == "Array(-2.979985, dtype=float32, weak_type=True)"
    panels = grad["panels"]
    assert panels["stack"] == ["eval", "linearize:1"] and panels["binds"]["linearize:1"] > 0
    assert panels["jaxprs"][0]["kind"] == "linear" and "mul" in panels["jaxprs"][0]["text"]
    assert panels["tracers"][0]["level"] == "linearize:1" and panels["tracers"][0]["type"] == "f32[]"
    assert panels["time"].keys() == {"linearize", "transpose"} and panels["truncated"] is False
    assert printing["printed"] == "a\nb\n" and printing["value"] == "7"
    assert error["error"] == {"type": "ZeroDivisionError", "message": "division by zero", "place": "<minijax-4>:1"}
    assert usage["error"]["type"] == "UsageError" and "Did you mean" in usage["shown"]
    assert jit["panels"]["hlo"] == [{"name": "f", "before": jit["panels"]["hlo"][0]["before"], "after": {"fusion": 1}}]
    assert jit["panels"]["cache"][0]["hit"] is False and jit["panels"]["cache"][0]["reason"] == "first call"


def test_nothing_else_reaches_standard_output():
    found, code = objects(
        "-c",
        "import os, sys\nos.write(1, b'raw')\nos.system('echo child')\nsys.stdout.write('text')\nprint('é\\ud800')",
    )
    assert code == 0
    assert [each["printed"] for each in found] == ["", "", "", "text", "é\ud800\n"]


def test_odd_values():
    code = "class Bad:\n    def __repr__(self): raise ValueError('no')\n\nBad()\nfloat('nan')\nprint('x' * 2_000_000)\n"
    found, exit_code = objects(given=code)
    assert exit_code == 1
    assert found[1]["error"]["type"] == "ValueError"
    assert found[2]["value"] == "nan"
    assert len(found[3]["printed"]) == 1_000_000 and found[3]["printed_cut"] is True


def test_values_are_data_for_programs():
    (_, shown), code = objects(given="def f(x):\n    y = x * 2.0\n    return y * y\n\n%values grad(f)(3.0)\n")
    assert code == 0
    rows = {row["name"]: row for row in shown["data"]}
    assert rows["x"]["primal"]["text"] == "3.0" and rows["x"]["cotangent"]["text"] == "24.0"
    assert rows["y"]["level"] == "linearize:1" and rows["y"]["tangent"] is None
    assert "primal" in shown["shown"]
