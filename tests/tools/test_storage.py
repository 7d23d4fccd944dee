"""A recording loaded from a file equals the saved one, and hostile files are rejected."""

import functools
import json
import os

import pytest

import minijax
import minijax.numpy as jnp
from minijax.ir import doc as pp
from minijax.tools.recording import storage
from minijax.tools.recording.device_records import (
    DeviceMomentRecord,
    DevicesRecord,
    DeviceTextRecord,
    DeviceValueRecord,
    Meeting,
)
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord, JaxprRecord, Recording, ScopeRecord


@functools.cache
def recorded():
    def g(x):
        return jnp.sum(jnp.sin(x) * 2.0)

    recorder = Recorder("full", "g")
    with recorder:
        minijax.jit(minijax.grad(g))(jnp.ones(3))
    return recorder.recording


def through_json(recording):
    return storage.from_json(json.loads(json.dumps(storage.to_json(recording))))


def test_saving_does_not_write_to_an_existing_temporary_name(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / f".a.json.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        storage.save(Recording("full"), tmp_path / "a.json")
    assert victim.read_text() == "untouched" and not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("style", ["jax", "tutorial"])
def test_a_loaded_program_is_printed_in_either_style(style):
    loaded, made = (recording.jaxprs[0].document(style) for recording in (through_json(recorded()), recorded()))
    assert str(loaded) == str(made)


def test_deep_trees_and_documents_are_saved_without_recursion():
    node = None
    doc = pp.text("x")
    for level in range(5_000, 0, -1):
        children = () if node is None else (node,)
        node = BindRecord(level, 10_001 - level, "sin", "eval", 0, (), (), (), "", None, "", "", children)
        doc = pp.group(pp.nest(1, doc))
    assert node is not None
    jaxpr = JaxprRecord(20_000, "staged", "f", 1, None, doc)
    loaded = through_json(Recording("full", tree=(node, jaxpr), jaxprs=(jaxpr,)))
    assert sum(1 for _ in loaded.walk()) == 5_001
    assert str(loaded.jaxprs[0].document()) == "x"
    assert loaded.tree[1] is loaded.jaxprs[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it is no JSON, or was cut off"),
        ("\x00\xff", "it is no JSON, or was cut off"),
        ("[" * 100_000, "nested deeper"),
        ("[]", "its format is not 'minijax-recording'"),
        ('{"format": "other"}', "its format is not"),
        ('{"format": "minijax-recording"}', "its version is null"),
        ('{"format": "minijax-recording", "version": 2}', "its version is 2, and this minijax reads version 1"),
        ('{"format": "minijax-recording", "version": true}', "its version is True"),
        ('{"format": "minijax-recording", "version": 1}', "no fields and records"),
    ],
)
def test_files_without_a_recording_are_refused(text, expected, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match="bad.json cannot be read as a recording: ") as caught:
        storage.load(path)
    assert expected in str(caught.value)


def test_a_truncated_file_is_refused(tmp_path):
    text = json.dumps(storage.to_json(recorded()))
    path = tmp_path / "cut.json"
    for length in range(0, len(text), len(text) // 40):
        path.write_text(text[:length])
        with pytest.raises(ValueError, match="cannot be read as a recording"):
            storage.load(path)
    data = storage.to_json(recorded())
    with pytest.raises(ValueError, match="it was cut off"):
        storage.from_json({**data, "records": data["records"][:-1]})


def refused(expected, **changes):
    data = {
        "format": "minijax-recording",
        "version": 1,
        "fields": {
            "Recording": ["level", "tree"],
            "ScopeRecord": list(ScopeRecord._names),
            "JaxprRecord": ["at", "kind", "name", "equations", "doc"],
            "Extra": [],
        },
        "records": [["Recording", "full", []]],
        "documents": [],
        **changes,
    }
    with pytest.raises(ValueError, match=expected):
        storage.from_json(data)


def scope(*children):
    return ["ScopeRecord", 1, 2, "jvp:1", 1, "f", ["eval"], list(children), ""]


def test_wrong_rows_are_refused():
    refused("record 0: its kind", records=[["Unknown"]])
    refused("Recording.level: expected a string, found 3", records=[["Recording", 3, []]])
    refused("there is no level 'deep'", records=[["Recording", "deep", []]])
    refused("expected the number of an earlier record, found 0", records=[["Recording", "full", [0]]])
    refused("expected a Node, found a Recording", records=[["Recording", "full", []], ["Recording", "full", [0]]])
    refused("two places in the tree", records=[scope(), ["Recording", "full", [0, 0]]])
    refused("ScopeRecord.at: expected an integer", records=[["ScopeRecord", 1e300, *scope()[2:]]])
    refused("Recording has no level", fields={"Recording": ["tree"]}, records=[["Recording", []]])
    jaxpr = ["JaxprRecord", 1, "staged", "f", 1]
    refused("expected the number of a document, found 0", records=[[*jaxpr, 0]])
    fields = {"JaxprRecord": ["at", "kind", "name", "equations", "program"]}
    refused("expected null", fields=fields, records=[[*jaxpr, "x"]])


def test_wrong_documents_are_refused():
    refused("the documents are no list", documents={})
    refused("row 0 of the documents may refer only to earlier rows", documents=[["c", 0]])
    refused("may refer only to earlier rows", documents=[["t", "", "x"], ["g", 1]])
    refused("may refer only to earlier rows", documents=[["t", "", "x"], ["c", -1]])
    for bad in (
        5,
        [],
        ["z"],
        ["t", "no such role", "x"],
        ["t", ""],
        ["g"],
        ["i", -1, 0],
        ["i", 10**9, 0],
        [["t"]],
        ["n", 1],
    ):
        refused("is of no known kind", documents=[["t", "", "x"], bad])


def test_a_file_that_expands_too_much_is_refused():
    refused("has more than 5,000,000 parts", documents=[["t", "", "x"], *[["c", i, i] for i in range(60)]])
    doubled = [["t", "", "x" * 100_000], *[["c", i, i] for i in range(12)]]
    refused("has more than 50,000,000 characters", documents=doubled)
    indented = [["b", "", " "], *[["c", i, i] for i in range(16)], ["i", 1000, 16]]
    refused("has more than 50,000,000 characters", documents=indented)


def test_large_files_are_refused(tmp_path):
    giant = tmp_path / "giant.json"
    with giant.open("wb") as file:
        file.truncate(1_000_000_001)  # a sparse file, which takes no disk space
    with pytest.raises(ValueError, match="it has more than the 1,000,000,000 bytes that a recording can"):
        storage.load(giant)


def test_fields_of_later_minor_versions_are_ignored():
    data = storage.to_json(Recording("full", "f(x)"))
    data["fields"]["Recording"].append("colour")
    data["records"][-1].append("green")
    data["extra"] = 1
    assert storage.from_json(data) == Recording("full", "f(x)")


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"axes": (("i", 3),)}, "as many values as devices"),
        ({"axes": ()}, "no devices"),
        ({"pieces": (DeviceTextRecord(),)}, "as many pieces as devices"),
        ({"meeting": Meeting("psum", "psum", "all", "", ("i",), ((0, 2),))}, "devices that do not exist"),
    ],
)
def test_values_per_device_are_saved_and_checked(change, expected):
    texts = [DeviceTextRecord(((12, (("value", str(i)),)),)) for i in range(2)]
    column = DeviceValueRecord("x", "f32[]", ("i",), False, "", 1, texts[0], tuple(texts))
    meeting = Meeting("psum", "psum", "all", "", ("i",), ((0, 1),))
    shown = DevicesRecord((0, 0), "shard_map", (("i", 2),), True, (column,), meeting)
    for each in (shown, shown.replace(**change)):
        recording = Recording("full", "f(x)", devices=(DeviceMomentRecord(0, each), DeviceMomentRecord(1, None, "cut")))
        data = json.loads(json.dumps(storage.to_json(recording)))
        if each is shown:
            assert storage.from_json(data) == recording
        else:
            with pytest.raises(ValueError, match=expected):
                storage.from_json(data)
