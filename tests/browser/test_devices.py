"""The devices pane of a page shows what the terminal's pane shows, and follows the chosen device."""

from __future__ import annotations

from typing import Any

import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.sharding import PartitionSpec as P
from minijax.tools import record
from minijax.tools.documents.document import MARK, lay_out
from minijax.tools.pages.part import WIDTH
from minijax.tools.pages.widget import payload, widget_html
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.records import BindRecord, Recording
from minijax.tools.stepper.devices import devices_pane, devices_shown, with_devices
from minijax.tools.values.moment import ledger

READ = """
const pane = document.querySelector('[data-pane=devices]');
return pane.parentElement.hidden ? [] : [...pane.children].map((line) => line.textContent);
"""

# A step of the slider is a moment.
MOVE = """
const slider = document.querySelector('.mjw-slider');
slider.value = arguments[0];
slider.dispatchEvent(new Event('input'));
"""


def recorded() -> Recording:
    def local(x: Any) -> Any:
        y = jnp.sin(x)
        z = lax.psum_scatter(y, "i", tiled=True)
        return z * 2.0

    mesh = minijax.make_mesh((2,), ("i",), axis_types=(minijax.sharding.AxisType.Auto,))
    mapped = minijax.shard_map(local, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    _, found = record(mapped, jnp.arange(8.0))
    return found


def squeezed(lines: Any) -> list[str]:
    texts = [" ".join(text.replace(MARK, "").split()) for text in lines]
    return [text for text in texts if text]


def terminal(cursor: Cursor) -> list[str]:
    return squeezed("".join(piece for _, piece in each) for each in lay_out(devices_pane(cursor), WIDTH))


@pytest.mark.parametrize("from_file", (False, True))
def test_the_devices_pane_of_a_page_matches_the_terminal(window, from_file):
    recording = recorded()
    kept = storage.from_json(storage.to_json(with_devices(recording))) if from_file else recording
    window.show(widget_html(kept))
    cursor = Cursor(recording)
    seen = []
    for position, moment in enumerate(cursor.moments):
        cursor.go(position)
        window.run(MOVE, position)
        shown = devices_shown(cursor)
        found = squeezed(window.run(READ))
        if shown is None:
            assert not found, moment
            continue
        wanted = terminal(cursor)
        # the page's title leaves the device out if the choice of device does not change the pane
        assert found[1:] == wanted[1:], moment
        assert found[0] == (wanted[0] if shown.meeting is not None else wanted[0].partition(" · [")[0])
        if isinstance(moment.node, BindRecord) and moment.kind == LEAVE:
            seen.append(moment.node.primitive)
    assert {"sin", "reduce_scatter", "mul", "shard_map"} <= {*seen}


def test_choosing_another_device_shows_its_values(window):
    recording = recorded()
    cursor = Cursor(recording)
    assert cursor.to_bind(primitive="reduce_scatter")
    cursor.over()
    window.show(widget_html(recording, start=cursor.position))
    before = squeezed(window.run(READ))
    window.run("document.querySelector('.mjw-offer button:last-of-type').click()")
    after = squeezed(window.run(READ))
    assert "given to device 0" in before and "given to device 1" in after
    (mesh,) = {devices.key for life in recording.lives if (devices := ledger(recording).devices(life.tracer.id))}
    ledger(recording).iterations[mesh] = 1
    assert after == terminal(cursor)


def test_a_program_on_one_device_has_no_devices_pane():
    _, recording = record(jnp.sin, 1.0)
    assert "devices" not in payload(recording)
    assert payload(recorded())["devices"] is True
