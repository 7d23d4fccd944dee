"""Random programs with arithmetic, control flow and calls, compared with JAX.

A program is data: a list of statements, each of which appends a value to an environment. So hypothesis can shrink a
program, and ``run`` can run it in either library. Bodies are programs too. A body that uses the enclosing values closes
over tracers of every kind. By default there are 40 examples; ``MINIJAX_RANDOM_PROGRAMS=1500`` runs more, which
differ in each run.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from minijax.core.trace import stack_depth
from minijax.ir.typecheck import typecheck_jaxpr
from tests.oracle.subject import QUICKLY, assert_same, oracle, subject, x64_mode

EXAMPLES = int(os.environ.get("MINIJAX_RANDOM_PROGRAMS", "40"))
DRAW_OTHERS = "MINIJAX_RANDOM_PROGRAMS" in os.environ

# The types of values: scalar, vector of three, integer, boolean.
F, V, N, B = "FVNB"
WIDTH = 3

# ---------------------------------------------------------------------------------------------- programs as data


class Body(NamedTuple):
    """A function: the types of its parameters, its statements, and its results as indices from the end of its values.

    Its values are, in order: the enclosing program's if ``closes``, its parameters, its statements' values.
    """

    params: tuple[str, ...]
    closes: bool
    statements: tuple[Any, ...]
    outs: tuple[int, ...]


INPUTS = (F, V, N, B)

# name -> (function, types of its operands, type of its result: '' for the type of the larger operand)
OPERATIONS = {
    "sin": (lambda jnp, x: jnp.sin(x), (F + V,), ""),
    "tanh": (lambda jnp, x: jnp.tanh(x), (F + V,), ""),
    "root": (lambda jnp, x: jnp.sqrt(x * x + 1), (F + V,), ""),
    "mul": (lambda jnp, x, y: jnp.tanh(x) * y, (F + V, F + V), ""),
    "max": (lambda jnp, x, y: jnp.maximum(x, y), (F + V, F + V), ""),
    "where": (lambda jnp, p, x, y: jnp.where(p, x, y), (B, F + V, F + V), ""),
    "ints": (lambda jnp, i, j: (i * j + i) % 5, (N, N), N),
    "sum": (lambda jnp, v: v.sum(), (V,), F),
    "spread": (lambda jnp, x: x * jnp.asarray(np.float32([0.5, -1.0, 1.5])), (F,), V),
    "pick": (lambda jnp, v, i: v[i % WIDTH], (V, N), F),
    "put": (lambda jnp, v, i, x: v.at[i % WIDTH].set(x), (V, N, F), V),
    "dot": (lambda jnp, v, w: jnp.tanh(v) @ jnp.tanh(w), (V, V), F),
    "less": (lambda jnp, x, y: jnp.sum(x) < jnp.sum(y), (F + V, F + V), B),
}


def run(ns, body, outer, args):
    """The results of ``body`` on ``args`` in the library ``ns``; ``outer`` are the enclosing values."""
    env = [*(outer if body.closes else ()), *args]
    for kind, *fields in body.statements:
        if kind in OPERATIONS:
            env.append(OPERATIONS[kind][0](ns.numpy, *values(tuple(env), tuple(fields))))
        else:
            env.append(STATEMENTS[kind](ns, tuple(env), *fields))
    return tuple(env[-1 - k] for k in body.outs)


def function(ns, body, env):
    """``body`` as a Python function that closes over ``env``."""
    return lambda *args: run(ns, body, env, args)


def values(env, places):
    return tuple(env[k] for k in places)


# ---------------------------------------------------------------------------------------------- statements


def number(ns, env, value):
    """A number, weakly typed except in 64-bit mode, where a weak result would change the carry's type."""
    return value if ns.numpy.asarray(value).dtype == np.float32 else np.float32(value)


def cond(ns, env, pred, bodies, args):
    functions = [function(ns, b, env) for b in bodies]
    return ns.lax.cond(env[pred], *functions, *values(env, args))[0]


def switch(ns, env, index, bodies, args):
    return ns.lax.switch(env[index], [function(ns, b, env) for b in bodies], *values(env, args))[0]


def fori(ns, env, rounds, body, args):
    def step(i, carry):
        return run(ns, body, env, ((i % 5).astype(np.int32), *carry))

    return ns.lax.fori_loop(0, rounds, step, values(env, args))[-1]


def scan(ns, env, how, body, args, xs):
    """The first carry plus the sum of the first stacked result, in tanh, as the sine of a large value is inexact."""
    length, backwards, unroll, wrap = how
    n = len(args)

    def cell(carry, x):
        outs = run(ns, body, env, (*carry, *x))
        return outs[:n], {"y": outs[n:]}

    step = {"": lambda f: f, "checkpoint": ns.checkpoint, "jit": ns.jit}[wrap](cell)
    over = tuple(x[:length] for x in values(env, xs)) if xs else ()
    carry, ys = ns.lax.scan(step, values(env, args), over, length=length, reverse=backwards, unroll=unroll)
    return ns.numpy.tanh(carry[0] + ys["y"][0].sum())


def call(ns, env, wrap, body, args):
    f = function(ns, body, env)
    wrapped = {
        "jit": lambda: ns.jit(f),
        "checkpoint": lambda: ns.checkpoint(f),
        "dots": lambda: ns.checkpoint(f, policy=ns.checkpoint_policies.dots_saveable),
        "jvp": lambda: lambda *xs: ns.jvp(lambda x: f(x, *xs[1:]), (xs[0],), (ns.numpy.cos(xs[0]),))[1],
        "grad": lambda: lambda *xs: (ns.grad(lambda x: ns.numpy.sum(f(x, *xs[1:])[0]))(xs[0]),),
        "vmap": lambda: ns.vmap(f, in_axes=(0, *[None] * (len(args) - 1))),
    }[wrap]()
    return wrapped(*values(env, args))[0]


STATEMENTS = {
    "number": number,
    "array": lambda ns, env, value: ns.numpy.asarray(np.array(value, np.float32)),
    "integer": lambda ns, env, value: np.int32(value),
    "cond": cond,
    "switch": switch,
    "fori": fori,
    "scan": scan,
    "call": call,
}

# ---------------------------------------------------------------------------------------------- drawing programs


class Drawing:
    """The state of drawing one program; ``draw`` is hypothesis's function."""

    def __init__(self, draw):
        self.draw = draw

    def pick(self, options):
        return self.draw(st.sampled_from(list(options)))

    def place(self, types, wanted):
        """The index of a value of one of the types ``wanted``; hypothesis prefers the latest, which is first."""
        return self.pick([k for k, t in enumerate(types) if t in wanted][::-1])

    def body(self, outer, params, outs, depth):
        """A body that returns values of types ``outs``; each of these types must occur among its parameters."""
        sees = self.draw(st.booleans())
        types = [*(outer if sees else ()), *params]
        statements = []
        for _ in range(self.draw(st.integers(1, 3 if depth else 5))):
            statement, made = self.statement(types, depth)
            statements.append(statement)
            types.append(made)
        places = tuple(len(types) - 1 - self.place(types, t) for t in outs)
        return Body(params, sees, tuple(statements), places)

    def statement(self, types, depth):
        """A statement and the type of its value."""

        def has(wanted):
            return any(t in wanted for t in types)

        kinds = ["number", "array", "integer"]
        kinds += [name for name, (_, wanted, _) in OPERATIONS.items() if all(map(has, wanted))]
        if depth and has(F + V):
            kinds += ["call", "scan"] * 4 + ["cond"] * 4 * has(B) + ["switch"] * has(N) + ["fori"]
        kind = self.pick(kinds)
        if kind in OPERATIONS:
            _, wanted, made = OPERATIONS[kind]
            places = [self.place(types, each) for each in wanted]
            return (kind, *places), made or max(types[k] for k in places if types[k] in F + V)
        match kind:
            case "number":
                return (kind, self.pick([0.5, -1.5, 2.0])), F
            case "array":
                return (kind, tuple(self.pick([0.25, -0.75, 1.5]) for _ in range(WIDTH))), V
            case "integer":
                return (kind, self.draw(st.integers(0, 4))), N
            case _:
                return self.with_bodies(kind, types, depth - 1)

    def with_bodies(self, kind, types, depth):
        more = self.draw(st.lists(st.sampled_from(range(len(types))), max_size=2))
        args = (self.place(types, F + V), *more)
        params = tuple(types[k] for k in args)
        out = params[0]

        def body(params, outs):
            return self.body(types, params, outs, depth)

        match kind:
            case "cond":
                return (kind, self.place(types, B), (body(params, (out,)), body(params, (out,))), args), out
            case "switch":
                bodies = tuple(body(params, (out,)) for _ in range(self.draw(st.integers(1, 3))))
                return (kind, self.place(types, N), bodies, args), out
            case "fori":
                return (kind, self.draw(st.integers(0, 3)), body((N, *params), params), args), params[-1]
            case "scan":
                n_xs = self.draw(st.integers(0, 1)) if V in types else 0
                xs = tuple(self.place(types, V) for _ in range(n_xs))
                how = (
                    self.pick([3, 2, 1, 0]),
                    self.draw(st.booleans()),
                    self.pick([1, 1, 2, True]),
                    self.pick(["", "checkpoint", "jit"]),
                )
                made = body((*params, *[F] * n_xs), (*params, out))
                return (kind, how, made, args, xs), out if out == V else F
            case _:
                wrap = self.pick(["jit", "checkpoint", "dots", "jvp", "grad", *["vmap"] * (V in params)])
                if wrap == "vmap":
                    first = self.place(types, V)
                    rest = tuple(k for k in args if types[k] == F)
                    args, params = (first, *rest), (F, *[F] * len(rest))
                    return (kind, wrap, body(params, (F,)), args), V
                return (kind, wrap, body(params, (out,)), args), out


@st.composite
def programs(draw):
    return Drawing(draw).body([], INPUTS, (F, V, N), 2)


# ---------------------------------------------------------------------------------------------- transformations

ARGS = (np.float32(0.6), np.array([0.3, -1.2, 0.8], np.float32), np.int32(2), np.bool_(True))
BATCHED = (
    np.array([0.6, -0.4], np.float32),
    np.array([[0.3, -1.2, 0.8], [1.1, 0.2, -0.5]], np.float32),
    np.array([2, 1], np.int32),
    np.array([True, False]),
)
DOTS = (np.float32(1.5), np.array([0.5, -1.0, 0.25], np.float32))


def transformed(ns, body, in_axes):
    """name -> (function, arguments) for every transformation of a program."""

    def f(*args):
        a, b, c = run(ns, body, (), args)
        return {"a": a, "b": (b, [c])}

    def loss(*args):
        out = f(*args)
        return ns.numpy.sum(ns.numpy.sin(out["a"])) + ns.numpy.sum(ns.numpy.cos(out["b"][0]))

    def pushed(g):
        return lambda *args: ns.jvp(lambda x, v: g(x, v, *args[2:]), args[:2], dots)

    def total(g):
        return lambda *args: sum(ns.numpy.sum(ns.numpy.sin(leaf)) for leaf in g(*args))

    # arrays, because JAX rejects NumPy tangents in some programs ("non-canonical constant of type ndarray")
    dots = tuple(map(ns.numpy.asarray, DOTS))
    mixed = tuple(a if axis is None else b for a, b, axis in zip(ARGS, BATCHED, in_axes, strict=True))
    grad = ns.grad(loss, (0, 1))
    return {
        "value": (f, ARGS),
        "vmap": (ns.vmap(f, in_axes), mixed),
        "jvp": (pushed(f), ARGS),
        "vmap of jvp": (ns.vmap(pushed(f), in_axes), mixed),
        "grad": (grad, ARGS),
        "grad of jit": (ns.grad(ns.jit(loss), (0, 1)), ARGS),
        "vmap of grad": (ns.vmap(grad, in_axes), mixed),
        "grad of vmap": (ns.grad(lambda *args: ns.vmap(loss, in_axes)(*args).sum(), (0, 1)), mixed),
        "grad of checkpoint": (ns.grad(ns.checkpoint(loss), (0, 1)), ARGS),
        "grad of grad": (ns.grad(total(grad), (0, 1)), ARGS),
        "jvp of grad": (pushed(grad), ARGS),
        "grad of jvp": (ns.grad(total(pushed(loss)), (0, 1)), ARGS),
    }


IN_AXES = [(0, 0, 0, 0), (0, None, None, None), (None, 0, None, None), (None, None, 0, None), (None, 0, None, 0)]


def check(body, in_axes, names, mode):
    """Each transformation, evaluated and under ``jit``, gives JAX's results."""
    with x64_mode(mode):
        ours, theirs = (transformed(ns, body, in_axes) for ns in (subject, oracle))
        chosen = {name: theirs[name] for name in names}

        def everything(args):
            return {name: f(*args[name]) for name, (f, _) in chosen.items()}

        args = {name: a for name, (_, a) in chosen.items()}
        wanted = oracle.jit(everything).lower(args).compile(compiler_options=QUICKLY)(args)
        for name in names:
            f, f_args = ours[name]
            typecheck_jaxpr(subject.make_jaxpr(f)(*f_args))
            for way in (f, subject.jit(f)):
                try:
                    assert_same(way(*map(subject.numpy.asarray, f_args)), wanted[name], scale=30)
                except AssertionError as error:
                    raise AssertionError(f"{name}, {'evaluated' if way is f else 'jitted'}: {error}") from error
                assert stack_depth() == 0


@given(st.data())
@settings(max_examples=EXAMPLES, derandomize=not DRAW_OTHERS, suppress_health_check=list(HealthCheck))
def test_random_programs_match_jax(data):
    program = data.draw(programs())
    in_axes = data.draw(st.sampled_from(IN_AXES))
    names = list(transformed(subject, program, in_axes))
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=2, max_size=3, unique=True))
    mode = data.draw(st.sampled_from(["32", "32", "64"]))
    note(f"check({program!r}, {in_axes!r}, {chosen!r}, {mode!r})")
    check(program, in_axes, chosen, mode)


# Programs on which the random test failed before, in their smallest form.
WEAK_CARRY = ("fori", 0, Body((N, F, V, F), False, (("spread", 1), ("number", 0.5)), (0, 1, 0)), (0, 1, 0))
NUMBERS = Body((F,), False, (("number", 0.5),), (0,))
CONSTANT_CELL = Body((F, N, F, F), False, (("number", 0.5), ("number", 0.5), ("number", 0.5)), (3, 5, 0, 0))
FOUND = {
    # JAX removes unused tangents from this loop, so its gradient is zero; minijax used to run the loop backwards
    "a carry made weak, differentiated": ((("number", 0.5), WEAK_CARRY, ("number", 0.5)), (1, 0, 4),
     (None, 0, None, None), "grad"),
    "a carry made weak, twice": ((("number", 0.5), ("scan", (3, False, 2, "jit"), CONSTANT_CELL, (4, 2, 0), (1,))),
     (0, 4, 3), (None, None, 0, None), "grad of grad"),
    # the constant in the derivative of tanh is weak for a weakly typed vector too
    "a weakly typed vector": (
        (("fori", 0, Body((N, V), False, (("call", "vmap", NUMBERS, (1,)),), (0,)), (1,)), ("tanh", 4)),
        (5, 0, 3),
        (0, 0, 0, 0),
        "jvp",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_programs_that_failed_before_match_jax(name):
    statements, outs, in_axes, transformation = FOUND[name]
    check(Body(INPUTS, True, statements, outs), in_axes, [transformation], "32")
