"""Compare the stepper's devices pane with JAX's values per device, for programs on every device of a mesh.

``python -m tests.tools.device_screens`` prints the panes and the differences as JSON. It needs eight devices.
"""

import json
import os
from unittest import mock

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

import minijax as mj
from minijax.tools import record
from minijax.tools.documents.document import lay_out
from minijax.tools.recording import chunks, storage
from minijax.tools.recording.cursor import ENTER, LEAVE, Cursor
from minijax.tools.recording.records import BindRecord
from minijax.tools.stepper.devices import devices_pane, devices_shown, with_devices
from minijax.tools.values import saved_devices
from minijax.tools.values.moment import Worth, ledger
from minijax.tools.values.saved_devices import FIRST_TURNS

AXES = {"data": 4, "model": 2}
DEVICES = 8


def _mesh(module):
    auto = module.sharding.AxisType.Auto
    return module.make_mesh(tuple(AXES.values()), tuple(AXES), axis_types=(auto, auto))


def _sent(m, x):
    a = m.lax.ppermute(x, "data", [(0, 1), (1, 2), (3, 0)])
    b = m.lax.all_gather(a, "model", axis=1, tiled=True)
    c = m.lax.all_to_all(x, "data", 1, 0, tiled=True)
    d = m.lax.psum_scatter(c, "data", tiled=True)
    e = m.lax.psum(d, ("data", "model"))
    return {"a": a, "b": b, "c": c, "d": d, "e": e}


def _turns(m, x):
    def turn(block, _):
        block = m.lax.ppermute(block, "data", [(i, (i + 1) % 4) for i in range(4)])
        return block, None

    z, _ = m.lax.scan(turn, x, None, length=3)
    return {"z": z}


def _chosen(m, x):
    i = m.lax.axis_index("data")
    r = m.lax.cond(i > 1, lambda v: m.numpy.sin(v), lambda v: v + 1.0, x)
    _, w = m.lax.while_loop(lambda c: c[0] < i, lambda c: (c[0] + 1, c[1] * 2.0), (0, r))
    return {"r": r, "w": w}


PROGRAMS = {"sent": _sent, "turns": _turns, "chosen": _chosen}
X = np.arange(128.0, dtype=np.float32).reshape(16, 8) / 7


def mapped(m, program):
    """``program``, mapped over the devices. Each result gets a new first axis for the devices."""
    spec = m.sharding.PartitionSpec

    def every(x):
        found = program(m, x)
        return {name: m.numpy.asarray(value)[None] for name, value in found.items()}

    options = {"in_specs": spec("data", "model"), "out_specs": spec(("data", "model"))}
    return m.shard_map(every, mesh=_mesh(m), check_vma=False, **options)


def differences(recording, wanted):
    """Variable -> the largest difference between its values per device in the pane and in JAX."""
    known = ledger(recording)
    out = {}
    for life in recording.lives:
        mesh = known.devices(life.tracer.id) if life.name in wanted else None
        if mesh is None:
            continue
        found = [known.on_device(mesh.key, device, life.tracer.id) for device in range(mesh.count)]
        values = np.stack([np.asarray(each.array) for each in found if isinstance(each, Worth)])
        away = np.abs(values - wanted[life.name]) if len(found) == DEVICES else np.inf
        out[life.name] = max(out.get(life.name, 0.0), float(np.max(away)))
    return out


def screens(recording, width):
    """The devices pane after each operation."""
    cursor = Cursor(recording)
    for position, moment in enumerate(cursor.moments):
        if moment.kind == LEAVE and isinstance(moment.node, BindRecord):
            cursor.go(position)
            if devices_shown(cursor) is not None:
                yield moment.node.primitive, _text(cursor, width)


def _text(cursor, width):
    lines = lay_out(devices_pane(cursor), width)
    return ["".join(piece for _, piece in each).rstrip() for each in lines]


def begins(recording):
    """The devices pane at the start of the devices' program."""
    cursor = Cursor(recording)
    assert cursor.find(
        lambda moment: moment.kind == ENTER and getattr(moment.node, "level", "").startswith("shard_map")
    )
    return _text(cursor, 72)


def changed_in_files(recording):
    """Load the recording from a file of each format. Return the moments at which the pane, for device 0 or 5, differs
    from the pane of the recording itself, and whether the pane says that it has only first iterations.
    """
    kept = with_devices(recording)
    text = json.dumps(storage.to_json(kept))
    loaded = [storage.from_json(json.loads(text)), chunks.read(chunks.written(kept))]
    cursors = [Cursor(each) for each in (recording, *loaded)]
    found, first_only = set(), False
    for position in range(len(cursors[0].moments)):
        for cursor in cursors:
            cursor.go(position)
        shown = [devices_shown(cursor) for cursor in cursors]
        for device, width in ((0, 48), (5, 100)):
            for each, cursor in zip(shown, cursors, strict=True):
                if each is not None:
                    ledger(cursor.recording).iterations[each.mesh.key] = device
            live, *others = [" ".join(" ".join(_text(cursor, width)).split()) for cursor in cursors]
            first_only |= FIRST_TURNS in others[0]
            if any("".join(other.split(f"{FIRST_TURNS} ")) != live for other in others):
                found.add(position)
        for each in filter(None, shown):
            for one in (recording, *loaded):
                ledger(one).iterations.pop(each.mesh.key, None)
    return sorted(found), first_only


def without_room(recording, limit):
    """Return the moments that have a devices pane, the moments that still have it in a file written with ``limit`` 4,
    and the text of that file's pane at the last moment with a pane.
    """
    with mock.patch.object(saved_devices, limit, 4):
        cursors = [Cursor(recording), Cursor(chunks.read(chunks.written(with_devices(recording))))]
    positions = range(len(cursors[0].moments))
    shown = [[i for i in positions if each.go(i) + 1 and devices_shown(each)] for each in cursors]
    cursors[1].go(shown[0][-1])
    return [*shown, " ".join(_text(cursors[1], 200))]


def main():
    found = {}
    for name, program in PROGRAMS.items():
        _, recording = record(mapped(mj, program), mj.numpy.asarray(X))
        wanted = mapped(jax, program)(X)
        found[name] = differences(recording, {key: np.asarray(value) for key, value in wanted.items()})
        found[f"screens of {name}"] = list(screens(recording, 72))
        found[f"begins {name}"] = begins(recording)
        found[f"changed {name}"] = changed_in_files(recording)
    limits = ("MOST_CHANGES", "MOST_CHARACTERS")
    found["without room"] = {limit: without_room(recording, limit) for limit in limits}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
