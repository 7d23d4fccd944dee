"""A cursor moves through a recording and knows the state at each moment."""

import functools

import minijax
import minijax.numpy as jnp
from minijax.tools.recording.cursor import BEGIN, END, ENTER, LEAVE, Cursor
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord, ErrorRecord, RuleRecord


def f(x):
    y = jnp.sin(x)
    return y * 2.0 - x  # LINE_OF_PRODUCT


LINE_OF_PRODUCT = f.__code__.co_firstlineno + 2


def recording_of(fun):
    recorder = Recorder("full")
    try:
        with recorder:
            fun()
    except (TypeError, ZeroDivisionError):
        pass
    return recorder.recording


@functools.cache
def gradient():
    return recording_of(lambda: minijax.grad(f)(3.0))


def at(cursor):
    """The kind of the cursor's moment, and its primitive or level."""
    node = cursor.moment.node
    return cursor.moment.kind, getattr(node, "primitive", "") or getattr(node, "level", "")


def test_the_cursor_steps_into_over_out_and_back():
    cursor = Cursor(gradient())
    assert cursor.moment.kind == BEGIN and not cursor.back()
    assert cursor.into() and at(cursor) == (ENTER, "linearize:1")
    assert cursor.into() and at(cursor) == (ENTER, "sin")
    assert cursor.over() and at(cursor) == (LEAVE, "sin")
    assert cursor.over() and at(cursor) == (ENTER, "mul")  # after sin, "over" goes to the next moment
    assert cursor.into() and cursor.moment.depth == 2
    assert cursor.out() and at(cursor) == (LEAVE, "mul") and cursor.moment.depth == 1
    assert cursor.back_over() and at(cursor) == (ENTER, "mul")
    assert cursor.back() and at(cursor) == (LEAVE, "sin")
    assert cursor.back_out() and at(cursor) == (ENTER, "linearize:1")
    assert cursor.out() and cursor.moment.kind == END  # "out" leaves the scope around linearize:1
    assert not cursor.into() and not cursor.over() and not cursor.out()
    assert cursor.first() and cursor.position == 0
    assert cursor.go(10_000) and cursor.moment.kind == END


def test_the_cursor_goes_to_a_bind_by_primitive_level_line_and_shape():
    cursor = Cursor(gradient())
    assert cursor.to_bind("mul", level="linearize:1", place=str(LINE_OF_PRODUCT))
    node = cursor.moment.node
    assert isinstance(node, BindRecord) and (node.primitive, node.level) == ("mul", "linearize:1")
    first = cursor.position
    assert cursor.to_bind("mul", level="eval") and cursor.position > first
    assert cursor.to_bind(level="linearize", backwards=True) and cursor.position == first
    cursor.first()
    assert cursor.to_bind(place=str(LINE_OF_PRODUCT)) and cursor.position == first
    assert cursor.to_bind(place=f"{__file__}:{LINE_OF_PRODUCT}")
    assert not cursor.to_bind(place="1") and cursor.position > first
    assert not cursor.to_bind("tanh") and not cursor.to_bind(shape="f32[7]")
    cursor = Cursor(recording_of(lambda: minijax.vmap(f)(jnp.ones(3))))
    assert cursor.to_bind(shape="f32[3]")
    assert "f32[3]" in (*cursor.moment.node.types, *cursor.moment.node.in_types)
    assert cursor.to_bind("sin", shape="[3]") and cursor.moment.node.level == "eval"


def test_the_cursor_goes_to_an_error_and_back_out_of_it():
    recording = recording_of(lambda: minijax.make_jaxpr(lambda x: jnp.dot(jnp.ones((2, 3)), jnp.sin(x)))(jnp.ones(4)))
    cursor = Cursor(recording)
    assert cursor.to_error()
    node = cursor.moment.node
    assert isinstance(node, ErrorRecord) and node.where == "dot_general in make_jaxpr:1" and node.type == "TypeError"
    assert node.place.startswith(f"{__file__}:")
    assert cursor.state().bind is not None and cursor.state().bind.primitive == "dot_general"
    assert cursor.to_error() and at(cursor) == (LEAVE, "dot_general")
    assert cursor.to_error() and cursor.moment.node.where == "the recorded call"
    assert not cursor.to_error()
    assert cursor.to_bind("sin", backwards=True)
    assert cursor.to_error() and not Cursor(gradient()).to_error()


def test_the_cursor_searches_both_ways():
    cursor = Cursor(gradient())
    assert cursor.search("LINEARIZE:1 COS") is False  # no single text of a record has both words
    assert cursor.search("COS(") and cursor.first()
    assert cursor.search("Cos")
    assert cursor.moment.node.primitive == "cos"
    here = cursor.position
    assert cursor.search("transpose") and isinstance(cursor.moment.node, RuleRecord)
    assert cursor.search("Cos(") and cursor.search("cos", backwards=True) and cursor.to_bind("cos", backwards=True)
    assert cursor.position == here
    assert cursor.search("linear part of f") and type(cursor.moment.node).__name__ == "JaxprRecord"
    assert cursor.search("Cos(") and cursor.search("cos", backwards=True) and cursor.to_bind("cos", backwards=True)
    assert cursor.position == here
    assert not cursor.search("nowhere") and cursor.position == here


def test_bookmarks_survive_recording_the_call_again():
    square = minijax.jit(lambda x: jnp.sin(x) * x)
    square(1.0)

    def recorded(retrace):
        recorder = Recorder("full", "", retrace)
        with recorder:
            jnp.cos(square(2.0))
        return Cursor(recorder.recording)

    cached, traced = recorded(False), recorded(True)
    assert len(cached.moments) < len(traced.moments)
    cached.to_bind("cos")
    cached.mark("c")
    assert traced.take_marks(cached) == [] and traced.to_mark("c")
    assert traced.moment.kind == ENTER and traced.moment.node.primitive == "cos"
    traced.first()
    traced.to_bind("mul")
    traced.mark("m")
    again, anew = recorded(True), recorded(False)
    assert again.take_marks(traced) == [] and again.bookmarks == traced.bookmarks
    assert anew.take_marks(traced) == ["m"] and anew.bookmarks == cached.bookmarks
