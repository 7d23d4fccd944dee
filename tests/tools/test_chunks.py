"""Chunked recording files show the same as the recording itself, and only the parts on screen are loaded."""

import functools
import json
import random
import re
import zlib

import pytest

import minijax
from minijax import lax
from minijax.tools.documents.document import plain
from minijax.tools.recording import chunks, repeats, storage
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.recorder import record
from minijax.tools.stepper import backward, panes
from minijax.tools.values import table
from minijax.tools.values.moment import ELSEWHERE, Ledger, ledger
from minijax.tools.values.table import values_pane
from tests.tools.recorded_programs import as_text, recording_of


def through(recording):
    return chunks.read(chunks.written(recording))


@pytest.fixture(autouse=True)
def values_left_out(monkeypatch):
    """Show no values: values stay in the process that recorded them, and a file has everything else."""
    monkeypatch.setattr(Ledger, "glance", lambda *about: None)
    monkeypatch.setattr(Ledger, "loops", lambda *about: ())
    monkeypatch.setattr(Ledger, "_staged", lambda *about: ELSEWHERE)


def state_of(cursor):
    state = cursor.state()
    shown = tuple(map(tuple, state.tracers)), tuple([(p.level, p.scope, tuple(p.equations)) for p in state.programs])
    return (state.moment[:1], state.moment[2:], state.stack, shown, state.place, state.rule, state.forced)


def screen(cursor):
    shown = [
        panes.tree_lines(cursor), panes.source_pane(cursor), panes.stack_pane(cursor), panes.rule_pane(cursor),
        panes.program_pane(cursor), panes.status(cursor),
    ]  # fmt: skip
    return "\n".join(plain(each, 80) for each in shown)


@functools.cache
def long():
    """A recording of 5,000 events: a gradient that makes infinities."""

    def chain(x):
        for _ in range(160):
            x = lax.mul(lax.sin(x), 0.5)
        return lax.log(x - x) * 0.0

    return record(minijax.grad(chain), 0.9)[1]


@pytest.mark.parametrize("name", ["gradient", "grad_of_vmap_of_scan", "jit_miss_then_hit", "second_derivative"])
def test_a_chunked_file_shows_the_same_as_a_json_file_at_every_moment(name):
    recording = recording_of(name)
    loaded = through(recording)
    assert storage.to_json(loaded) == storage.to_json(recording) and as_text(loaded) == as_text(recording)
    # compare with a copy from JSON, because a loaded recording has no values
    mine, theirs = Cursor(storage.from_json(storage.to_json(recording))), Cursor(loaded)
    assert len(mine.moments) == len(theirs.moments)
    for position in range(len(mine.moments)):
        mine.go(position)
        theirs.go(position)
        assert state_of(mine) == state_of(theirs) and screen(mine) == screen(theirs)


def test_a_long_recording_loads_only_a_few_chunks(tmp_path, monkeypatch):
    # with this bound, the tree does not search long lists of siblings for repeats
    monkeypatch.setattr(repeats, "MOST_SIBLINGS", 100)
    recording = storage.from_json(storage.to_json(long()))
    storage.save(recording, tmp_path / "it.rec")
    size = (tmp_path / "it.rec").stat().st_size
    assert recording.events > 4_500 and size < 40 * recording.events
    cursor = Cursor(storage.load(tmp_path / "it.rec"))
    store = cursor.moments.nodes
    assert (store.unpacked, store.records_made) == (1, 1)  # only the root record is made
    first = screen(cursor)
    assert store.unpacked <= 10 and store.records_made < 400
    for position in random.Random(0).sample(range(len(cursor.moments)), 10):
        cursor.go(position)
        before = store.records_made
        panes.tree_lines(cursor), panes.source_pane(cursor), panes.stack_pane(cursor), panes.rule_pane(cursor)
        assert store.records_made - before < 1500
        shown = screen(cursor)
        live = Cursor(recording, position)
        assert shown == screen(live) and state_of(cursor) == state_of(live)
    assert first == screen(Cursor(recording))


def test_a_loaded_recording_can_be_saved_again_unchanged_or_changed(tmp_path):
    whole = chunks.written(recording_of("second_derivative"))
    assert chunks.written(chunks.read(whole)) == whole
    changed = chunks.read(whole).replace(source="other")
    data = storage.to_json(changed)
    assert storage.to_json(through(changed)) == data and through(changed).source == "other"
    for name in ("a.json", "a.rec"):
        storage.save(changed, tmp_path / name)
        assert storage.to_json(storage.load(tmp_path / name)) == data
    assert (tmp_path / "a.json").read_bytes().startswith(b'{"format"')


def test_opening_refuses_truncated_or_damaged_files(tmp_path):
    data = chunks.written(recording_of("gradient"))
    path = tmp_path / "bad.rec"
    for length in (*range(0, len(data), len(data) // 25), len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"bad.rec cannot be read as a recording: "):
            storage.load(path)
    for place in range(0, len(data), len(data) // 25):
        damaged = bytearray(data)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"bad.rec cannot be read as a recording: "):
            storage.load(path)


def opened(data):
    """The uncompressed parts of a file, its directory, and each part's entry in that directory."""
    begin, length, *_ = chunks._END.unpack_from(data, len(data) - chunks._END.size - 4)
    directory = json.loads(zlib.decompress(data[begin : begin + length]))
    addresses = [*directory["chunks"], *[directory[name] for name in ("documents", "names", "signs")]]
    addresses += directory["columns"].values()
    return [zlib.decompress(data[a[0] : a[0] + a[1]]) for a in addresses], directory, addresses


def rebuilt(parts, directory, addresses, size=-1):
    """A file with these parts, as an attacker could write it. It claims that its first part has ``size`` bytes."""
    out = bytearray(chunks.MAGIC)
    for part, address in zip(parts, addresses, strict=True):
        packed = zlib.compress(part)
        address[:3] = [len(out), len(packed), size if part is parts[0] and size >= 0 else len(part)]
        out += packed
    text = json.dumps(directory).encode()
    begin, packed = len(out), zlib.compress(text)
    out += packed
    out += chunks._END.pack(begin, len(packed), len(text))
    return bytes(out) + chunks._SUM.pack(zlib.crc32(out))


def refused(expected, change=lambda parts, directory: None, size=-1):
    parts, directory, addresses = opened(chunks.written(recording_of("gradient")))
    change(parts, directory)
    with pytest.raises(ValueError, match=expected):
        loaded = chunks.read(rebuilt(parts, directory, addresses, size))
        sum(1 for _ in loaded.walk())
        list(loaded.lives)
        naming_of(loaded).lettered.get((0, ""))


def test_hostile_files_are_refused():
    same = chunks.read(rebuilt(*opened(chunks.written(recording_of("gradient")))))
    assert storage.to_json(same) == storage.to_json(recording_of("gradient"))
    refused("its version is 3", lambda p, d: d.update(version=3))
    refused("its directory has no signs", lambda p, d: d.pop("signs"))
    refused("the number of records does not match", lambda p, d: d.update(nodes=d["nodes"] - 1))
    refused("not say where its records are", lambda p, d: d["chunks"].append(7))
    refused("part of it is larger", lambda p, d: d.update(signs=[0, 10, 10**12]))
    refused("unpacks to more", lambda p, d: p.__setitem__(0, b" " * (2 * chunks.MOST_JSON)))
    refused("has a wrong length", size=5)
    refused("has a wrong number of records", lambda p, d: p.__setitem__(0, b"[]"))
    refused("no JSON", lambda p, d: p.__setitem__(0, b"[" * 100_000))
    refused("do not form a tree", lambda p, d: p.__setitem__(-6, b"\x02" * len(p[-6])))
    refused("its columns are not", lambda p, d: p.__setitem__(-1, p[-1][8:]))
    refused("numbers that are too large", lambda p, d: p.__setitem__(-1, b"\x7f" * len(p[-1])))
    refused("table of names is invalid", lambda p, d: p.__setitem__(-7, b"[[[1, 2]], []]"))
    wrong = (b'["BindRecord",', b'["BindRecord",1.')
    refused("expected an integer", lambda p, d: p.__setitem__(0, p[0].replace(*wrong, 1)))


def test_a_file_with_a_changed_value_is_read_or_refused():
    source = random.Random(0)
    data = chunks.written(recording_of("gradient"))
    strange = [None, True, -1, 0, 3, 10**12, 0.5, "", "x", "BindRecord", [], [0], [[0]], {}, {"from": 0, "steps": [0]}]
    loaded = 0
    for _ in range(150):
        parts, directory, addresses = opened(data)
        whole = [json.loads(parts[i]) for i in range(len(directory["chunks"]))]
        place = directory if source.random() < 0.3 else whole
        while True:
            key = source.choice(list(place) if isinstance(place, dict) else range(len(place)))
            inner = place[key]
            if not isinstance(inner, (dict, list)) or not inner or (place is not whole and source.random() < 0.1):
                place[key] = source.choice(strange)
                break
            place = inner
        parts[: len(whole)] = [json.dumps(each).encode() for each in whole]
        try:
            recording = chunks.read(rebuilt(parts, directory, addresses))
            cursor = Cursor(recording)
            for _ in range(40):
                cursor.state()
                cursor.into()
            cursor.search("mul")
            for made in recording.jaxprs:
                str(made.document("tutorial", 2))
            list(recording.lives)
        except ValueError:
            continue
        loaded += 1
    assert 10 < loaded < 140


def test_search_finds_the_same_moments_in_a_file():
    mine, theirs = Cursor(long()), Cursor(through(long()))
    moves = [
        lambda c: c.to_nonfinite(),
        lambda c: c.to_error(),
        lambda c: c.to_bind("mul", level="linearize"),
        lambda c: c.to_bind(shape="[]", backwards=True),
        lambda c: c.last(),
        lambda c: c.search("LOG", backwards=True),
        lambda c: c.search("linear jaxpr", backwards=True),
        lambda c: c.first() or c.search("no such words"),
        lambda c: c.search("multiplication  of nothing"),
        lambda c: c.search("log(sub(x, x))") or c.search("log("),
        lambda c: c.search("x, 0.5)"),
    ]
    for number, move in enumerate(moves):
        assert (move(mine), mine.position) == (move(theirs), theirs.position), number
    assert mine.position > 1000


def test_panes_of_a_very_long_recording_report_omissions(monkeypatch):
    cursor = Cursor(long())
    cursor.go(len(cursor.moments) * 3 // 4)
    known, at = ledger(cursor.recording), cursor.moment.at

    def newest():
        rows = table.rows_at(known, at, -1)
        return plain(values_pane(cursor, selected=len(rows.named) - 1), 100).split("\n")

    whole, drawn = newest(), plain(panes.program_pane(cursor), 100)
    monkeypatch.setattr(table, "MOST_LIVES", 300)
    monkeypatch.setattr(backward, "MOST_STEPS", 100)
    part = newest()
    assert "earlier" in whole[1] and "or more" not in whole[1]
    assert re.search("the latest of very many|or more earlier", part[1])
    assert [each.split() for each in whole[-4:]] == [each.split() for each in part[-4:]]
    assert "step" in drawn and "too many to be drawn here" in plain(panes.program_pane(cursor), 100)
