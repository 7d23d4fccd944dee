"""The live stepper: its output and its answers in a real kernel, and the effect of moving an argument's slider."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jupyter_client.manager import KernelManager

import minijax.numpy as jnp
from minijax import random
from minijax.tools.pages.live import MOST_ARGUMENTS, LivePage, changed, static_html
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Step
from tests.ipython.kernel import ThisPython

VIEW = "application/vnd.jupyter.widget-view+json"
DEFINE = "import minijax.numpy as jnp\nfrom minijax import grad, jit\ndef f(x, n=2): return jnp.sin(x) * n - 1.0 / x"


class Person:
    """The person at a notebook: starts a kernel and sends messages as JupyterLab does."""

    def __init__(self, home: Path) -> None:
        self.manager = KernelManager(
            kernel_name="python3", kernel_spec_manager=ThisPython(), connection_file=str(home / "connection.json")
        )
        self.manager.start_kernel(cwd=str(home))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, cell: str, **metadata: Any) -> list[Any]:
        """Run a cell and return its outputs."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True, "stop_on_error": True}
        messages = self.send("execute_request", content, {"cellId": cell, **metadata})
        kinds = ("execute_result", "display_data", "stream", "error")
        return [message["content"] for message in messages if message["msg_type"] in kinds]

    def ask(self, view: Any, **content: Any) -> Any:
        """The stepper's answer to a message from its script on the page."""
        sent = {"comm_id": view["model_id"], "data": {"method": "custom", "content": {**content, "view": "a"}}}
        messages = self.send("comm_msg", sent, {})
        (answer,) = [message["content"] for message in messages if message["msg_type"] == "comm_msg"]
        assert answer["comm_id"] == view["model_id"] and answer["data"]["content"]["view"] == "a"
        return answer["data"]["content"]

    def send(self, kind: str, content: Any, metadata: Any) -> list[Any]:
        """Send a message; return all messages that the kernel sends in reply."""
        message = self.client.session.msg(kind, content, metadata=metadata)
        self.client.shell_channel.send(message)
        found = []
        while not found or (found[-1]["msg_type"], found[-1]["content"].get("execution_state")) != ("status", "idle"):
            got = self.client.get_iopub_msg(timeout=60)
            if got["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                found.append(got)
        return found


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    home = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        made = Person(home)
        try:
            made.run("%load_ext minijax", "load")
            made.run(DEFINE, "define")
            yield made
        finally:
            made.client.stop_channels()
            made.manager.shutdown_kernel(now=True)


def view_of(outputs: list[Any]) -> Any:
    kept, output = outputs
    assert set(kept["data"]) == {"text/plain", "text/html"}
    return output["data"][VIEW]


def test_the_output_has_a_view_and_a_fallback_without_a_kernel(person):
    kept, output = person.run("%step grad(f)(3.0)", "a")
    assert set(output["data"]) == {"text/plain", "text/html", VIEW} and output["data"]["text/plain"] == ""
    markup = kept["data"]["text/html"]
    assert "<script" not in markup and "linearize:1 begins" in markup and "<details" in markup
    assert "values at the first moment\n" in markup and "3.0" in markup and "ipykernel" not in markup
    assert len(json.dumps([kept, output])) < 16_000


def test_the_kernel_answers_with_the_page_and_its_parts(person):
    view = view_of(person.run("for _ in range(60):\n    y = f(0.5)\n%step grad(f)(3.0)", "b"))
    script = person.ask(view, kind="script")
    assert "function stepper" in script["script"] and ".mjw-stage" in script["style"]
    page = person.ask(view, kind="page")
    assert page["data"]["parts"][0][0] == 0 and isinstance(page["data"]["parts"][0][1], str)
    assert [(each["name"], each["values"], each["whole"]) for each in page["controls"]] == [("x", [3.0], False)]
    assert person.ask(view, kind="part", begin=0)["data"] == page["data"]["parts"][0][1]
    assert "no part that begins at 7" in person.ask(view, kind="part", begin=7)["said"]


def test_moving_an_argument_records_the_call_again(person):
    view = view_of(person.run("shown = %step f(3.0, n=4)", "c"))
    controls = person.ask(view, kind="page")["controls"]
    assert [each["name"] for each in controls] == ["x", "n"] and controls[1]["whole"]
    page = person.ask(view, kind="again", control=1, index=[], value=5.0, moment=2)
    assert page["kind"] == "page" and page["data"]["start"] == 2 and page["controls"][1]["values"] == [5.0]
    assert person.run("shown._widget.page.leaves", "d")[0]["data"]["text/plain"] == "[3.0, 5]"
    # the call is still made from the user's line
    view = view_of(person.run("%step grad(f)(3.0)", "o"))
    page = person.ask(view, kind="again", control=0, index=[], value=2.5, moment=3)
    data = zlib.decompress(base64.b64decode(page["data"]["parts"][0][1]), -15).decode()
    assert re.search(r'"Cell In\[\d+\], line 1"', data) and "widget.py" not in data
    # an error in the user's code ends the recording, and no interpreter remains on the stack
    person.run("def g(x):\n    if x > 4.0: raise ValueError('too much')\n    return jnp.sin(x)", "e")
    view = view_of(person.run("%step g(3.0)", "f"))
    failed = person.ask(view, kind="again", control=0, index=[], value=5.0, moment=0)
    assert failed["kind"] == "failed" and failed["said"] == "ValueError: too much"
    assert person.run("from minijax.core.trace import stack_depth\nstack_depth()", "g")[0]["data"]["text/plain"] == "0"


def test_rerunning_a_cell_closes_its_stepper_and_old_steppers_are_freed(person):
    view_of(person.run("a = %step f(3.0)", "h"))
    view_of(person.run("b = %step f(3.0)", "h"))
    assert person.run("a._widget.comm is None, b._widget.comm is None", "i")[0]["data"]["text/plain"] == "(True, False)"
    person.run("c = 1", "j", deletedCells=["h"])
    assert person.run("b._widget.comm is None", "i")[0]["data"]["text/plain"] == "True"
    limit = "import minijax.ipython_ext.sharing as s; s.MOST_STEPPERS = len(s.sharing(get_ipython())._steppers)"
    (output,) = person.run(f"{limit}\ns.sharing(get_ipython())._steppers[0][1].model_id", "k")
    eldest = {"model_id": output["data"]["text/plain"].strip("'")}
    assert person.ask(eldest, kind="page")["kind"] == "page"
    latest = view_of(person.run("%step f(3.0)", "n"))
    assert "has dropped this recording" in person.ask(eldest, kind="page")["said"]
    assert person.ask(latest, kind="page")["kind"] == "page"


def test_static_pages_are_shown_on_request_or_without_anywidget(person):
    person.run("%config MinijaxMagics.stepper = 'page'", "l")
    (output,) = person.run("%step f(3.0)", "m")
    assert set(output["data"]) == {"text/plain", "text/html"} and "<script" in output["data"]["text/html"]
    person.run("%config MinijaxMagics.stepper = 'auto'\nimport sys; sys.modules['anywidget'] = None", "l")
    (output,) = person.run("%step f(3.0)", "m")
    assert set(output["data"]) == {"text/plain", "text/html"}


@pytest.fixture(scope="module")
def recording() -> Recording:
    recorder = Recorder("full", "sin(3.0)")
    with recorder:
        jnp.sin(jnp.array([3.0, 4.0]))
    return recorder.recording


@pytest.mark.parametrize(
    ("leaf", "index"),
    [
        (3.0, ()),
        (2, ()),
        (np.float32(2.0), ()),
        (np.arange(6.0).reshape(2, 3), (1, 2)),
        (np.arange(3), (1,)),
        (jnp.asarray(2.0), ()),
        (jnp.array([[1.0, 2.0]]), (0, 1)),
        (jnp.arange(4), (3,)),
        (jax.numpy.array([1.0, 2.0]), (1,)),
    ],
)
def test_a_moved_argument_keeps_its_type(leaf, index):
    before = np.array(leaf)
    made = changed(leaf, index, 7.0)
    assert type(made) is type(leaf) and getattr(made, "dtype", None) == getattr(leaf, "dtype", None)
    assert getattr(made, "weak_type", None) == getattr(leaf, "weak_type", None)
    wanted = before.copy()
    wanted[index] = 7
    assert np.array_equal(np.asarray(made), wanted) and np.array_equal(np.asarray(leaf), before)


def test_only_numbers_and_small_arrays_can_be_moved(recording):
    given = {
        "x": 3.0, "n": 2, "on": True, "name": "relu", "z": 1j, "key": random.key(0), "w": jnp.ones((2, 3)),
        "large": jnp.ones(1000), "empty": jnp.ones(0), "nan": float("nan"), "mask": jnp.array([True]), "f": jnp.sin,
        "half": jnp.array(0.5, jnp.float16),
    }  # fmt: skip
    step = Step(recording, given=tuple(given.items()), again=lambda leaves: (recording, None))
    page = LivePage(step)
    assert [each["name"] for each in page.controls] == ["x", "n", "w", "half"]
    x, n, w, half = page.controls
    assert (x["low"], x["high"], n["low"], n["high"], n["step"]) == (-10, 10, -10, 10, 1)
    assert w["shape"] == [2, 3] and w["values"] == [1.0] * 6 and (half["low"], half["high"]) == (-1, 1)
    assert not LivePage(Step(recording, given=tuple(given.items()))).controls  # without ``again`` there are no sliders
    many = tuple((f"x{i}", 1.0) for i in range(20))
    page = LivePage(Step(recording, given=many, again=step.again))
    assert len(page.controls) == MOST_ARGUMENTS and page.answer({"kind": "page"})["left"] == 20 - MOST_ARGUMENTS


def test_sliders_are_limited_to_the_range_of_the_type(recording):
    given = {
        "n": np.array([200, 3], np.uint8), "i": jnp.int32(2**31 - 1), "half": np.float16(60000),
        "wide": 1e299, "wider": 1.7e308, "long": 10**400,
    }  # fmt: skip
    asked = []
    page = LivePage(Step(recording, given=tuple(given.items()), again=lambda leaves: asked.append(leaves)))
    n, i, half, wide = page.controls
    assert (n["low"], n["high"]) == (0, 255) and (i["low"], i["high"]) == (-(2**31), 2**31 - 1)
    assert half["high"] == 65504 and wide["high"] < float("inf")
    for control, value in ((0, -5.0), (0, 256.0), (1, 2.0**31), (2, 1e5)):
        index = [0] if control == 0 else []
        failed = page.answer({"kind": "again", "control": control, "index": index, "value": value, "moment": 0})
        # the failure carries the recording's numbers, so that the page shows them again
        assert failed["kind"] == "failed" and f"is no {given[page.controls[control]['name']].dtype}" in failed["said"]
        assert failed["controls"][0]["values"] == [200.0, 3.0] and not asked


def test_the_fallback_without_a_kernel_is_escaped_and_has_no_script():
    recorder = Recorder("full", "<script>")
    with recorder:
        jnp.sin(jnp.array([3.0]))
    made = static_html(recorder.recording)
    assert "<script" not in made and "in a notebook with a kernel, the stepper is shown" in made and "sin" in made
