"""Messages about values that must be concrete have the value's path from the arguments, and fitting advice."""

import re

import numpy as np
import pytest

import minijax.numpy as jnp
from minijax import errors, grad, jit, lax, make_jaxpr, vmap
from minijax.core import provenance
from minijax.core.trace import stack_depth


def error_of(call):
    with pytest.raises(errors.JAXTypeError) as raised:
        call()
    assert stack_depth() == 0
    return str(raised.value)


def branching(x, y):
    z = jnp.sin(x) * 2.0
    unrelated = jnp.cos(x)
    w = z + y["a"]
    if w > 0:
        return w
    return unrelated


LINE = branching.__code__.co_firstlineno
Y = {"a": 2.0, "b": 3.0}
YS = {"a": jnp.ones(3), "b": jnp.ones(3)}
STEPS = [(LINE + 1, "z = jnp.sin(x) * 2.0"), (LINE + 3, 'w = z + y["a"]'), (LINE + 4, "if w > 0:")]


def steps(message):
    found = re.findall(r"^  test_provenance\.py:(\d+)  (.*?)(?:   \(.*\))?$", message, re.MULTILINE)
    return [(int(line), text) for line, text in found]


TRANSFORMED = {
    "jit": lambda: jit(branching)(1.0, Y),
    "vmap": lambda: vmap(branching)(jnp.ones(3), YS),
    "jit of grad": lambda: jit(grad(branching))(1.0, Y),
    "jit of vmap": lambda: jit(vmap(branching))(jnp.ones(3), YS),
    "vmap of jit": lambda: vmap(jit(branching))(jnp.ones(3), YS),
    "scan": lambda: lax.scan(lambda c, x: (branching(c, {"a": x}), x), 1.0, jnp.ones(3)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_messages_show_the_path_from_the_arguments(name):
    message = error_of(TRANSFORMED[name])
    assert message.startswith("Attempted boolean conversion of traced array with shape bool[].")
    assert steps(message) == STEPS, message
    assert f"It happened at {__file__}:{LINE + 4} (branching)." in message
    last = message.splitlines()[-1]
    assert last.startswith("Use lax.cond in place of this `if`, or jnp.where to choose between arrays; or ")


def test_the_message_describes_nested_tracers():
    message = error_of(TRANSFORMED["jit of vmap"])
    assert f"while tracing the function branching at {__file__}:{LINE} for vmap." in message
    assert "It holds a jit:1 tracer. The error occurred while tracing the function branching" in message


def test_a_long_path_is_cut_in_the_middle():
    def long(x):
        a = x + 1
        b = a * 2
        c = b - 3
        d = c * 4
        e = d + 5
        f = e * 6
        return bool(f)

    message = error_of(lambda: jit(long)(1))
    lines = message.splitlines()
    begin = lines.index("It was computed as follows:")
    assert len(lines[begin + 1 : -2]) == provenance.MOST_LINES
    assert "  (2 lines in between)" in lines and "a = x + 1" in message and "f = e * 6" in message


def test_five_lines_are_shown_in_full():
    def five(x, y):
        a = x + 1
        b = a * 2
        c = y - 3
        d = b + c
        e = d * a
        return bool(e)

    shown = [text for _, text in steps(error_of(lambda: jit(five)(1, 2)))]
    assert shown == ["a = x + 1", "b = a * 2", "c = y - 3", "d = b + c", "e = d * a"]


def test_the_shortest_path_is_shown():
    def many(x, y):
        a = x + 1
        b = a * 2
        c = b - 3
        d = c * a
        e = d + b
        f = e * c
        g = f + y
        return 1 if g else 2

    assert [text for _, text in steps(error_of(lambda: jit(many)(1, 2)))] == ["g = f + y"]


def test_messages_name_operations_on_constants():
    def f(x):
        n = jnp.ones(2).sum()
        return x if n > 1 else -x

    message = error_of(lambda: jit(f)(1.0))
    assert "due to operations on constants" in message and "n = jnp.ones(2).sum()" in message


# --- advice -------------------------------------------------------------------------------------------------


def _while(x):
    while x < 10:
        x = x * 2
    return x


def _assert(x):
    assert x > 0
    return x


def _range(x):
    for _ in range(x):
        pass
    return x


ADVICE = {
    "while": (_while, "Use lax.while_loop in place of this `while`"),
    "assert": (_assert, "leave this `assert` out"),
    "and": (lambda x: x > 0 and x < 5, "Use & and |"),
    "not": (lambda x: not x, "Use ~ (jnp.logical_not)"),
    "chain": (lambda x: 0 < x < 5, "Use (a < x) & (x < b)"),
    "tuples": (lambda x: (x,) == (2,), "Use jnp.where, lax.cond or lax.while_loop"),
    "conditional expression": (lambda x: 1 if x else 2, "Use lax.cond in place of this `if`"),
    "max": (lambda x: max(x, 2), "Use jnp.maximum"),
    "bool": (lambda x: bool(x), "Use jnp.where, lax.cond or lax.while_loop"),
    "range": (_range, "Use lax.fori_loop"),
    "list index": (lambda x: [1, 2, 3, 4][x], "Use jnp.array for the indexed object"),
    "shape": (lambda x: jnp.zeros(x),
     "Pass the value as a static argument (static_argnums of jit), or keep it an array."),
    "float": (lambda x: float(x), "Use x.astype(float)"),
    "numpy": (lambda x: np.sin(x), "Use the function of the same name in minijax.numpy"),
}  # fmt: skip


@pytest.mark.parametrize("name", ADVICE)
def test_advice_fits_the_construct(name):
    function, expected = ADVICE[name]
    last = error_of(lambda: jit(function)(3)).splitlines()[-1]
    assert expected in last, last
    assert name == "numpy" or "static argument (static_argnums of jit)" in last


def test_advice_fits_the_transformation():
    assert "in_axes=None" in error_of(lambda: vmap(lambda x: 1 if x else 2)(jnp.arange(3))).splitlines()[-1]
    assert "static_argnums of make_jaxpr" in error_of(lambda: make_jaxpr(lambda x: 1 if x else 2)(1)).splitlines()[-1]
    message = error_of(lambda: lax.cond(True, lambda x: 1.0 if x else 2.0, lambda x: x, 1.0))
    assert "before the function is transformed" in message.splitlines()[-1]


def test_without_source_there_is_still_a_message():
    namespace = {}
    exec(compile("def f(x):\n    y = x * 2\n    if y > 0: return y\n    return x", "<nowhere>", "exec"), namespace)
    message = error_of(lambda: jit(namespace["f"])(1.0))
    assert "<nowhere>:2  " in message and message.splitlines()[-1].startswith("Use jnp.where")
    message = error_of(lambda: vmap(namespace["f"])(jnp.ones(2)))
    assert "This is how" not in message and "for vmap" in message


# --- escaped tracers ----------------------------------------------------------------------------------------

KEPT = {}


def test_an_escaped_tracer_reports_its_origin():
    def f(x):
        KEPT["x"], KEPT["y"] = x, x * 2
        return x

    jit(f)(1.0)
    line = f.__code__.co_firstlineno + 1
    message = error_of(lambda: KEPT["y"] + 1)
    assert f"The leaked value was created at {__file__}:{line}:" in message
    assert "It escaped through the global KEPT['y']." in message
    message = error_of(lambda: KEPT["x"] + 1)
    assert "The leaked value is input 0 of that function." in message
    here = [KEPT["y"]]
    with pytest.raises(errors.UnexpectedTracerError, match=r"It escaped through here\[0\]\."):
        here[0] + 1
    KEPT.clear()


def test_an_error_says_which_variable_the_value_is():
    def index(p):
        k = p["n"] * 2
        return [1, 2, 3][k]

    def inside(items):
        return float(items["h"][0])

    def outer(x):
        h = jnp.sin(x)
        return inside({"h": (h, 1)})

    assert "The value is `k` of index.\n" in error_of(lambda: jit(index)({"n": 1}))
    assert "The value is `h` of outer.\n" in error_of(lambda: jit(outer)(1.0))
    nameless = error_of(lambda: jit(lambda x: float(x + 1.0))(1.0))
    assert "The value is" not in nameless


def test_the_assigned_variable_is_found():
    h = errors.source_info(1)
    a, b = errors.source_info(1), [errors.source_info(1)]
    chained = other = errors.source_info(1)
    assert provenance.assigned_name(h) == "h" and other is chained
    assert [provenance.assigned_name(each) for each in (a, b[0], chained, None)] == [""] * 4
