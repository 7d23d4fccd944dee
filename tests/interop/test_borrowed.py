"""Borrowed primitives match JAX's own under every transformation."""

import functools
import gc
import json
import subprocess
import sys
import weakref

import jax
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import minijax as mj
import minijax.lax
import minijax.numpy
from minijax.extend.core import parse_jaxpr
from minijax.interop.borrowed import borrowed, params_of_jax, params_of_ours
from minijax.ir.typecheck import typecheck_jaxpr
from minijax.repl import batch
from minijax.test_util import check_rules
from minijax.tools.documents.document import plain
from minijax.tools.recording import storage
from tests.interop.borrowed_rows import inexact, rows
from tests.oracle.subject import assert_same
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("compiled_quickly")

ROWS = {row.label: row for row in rows()}


def direction(x, seed):
    """A fixed tangent or cotangent for ``x``; ``seed`` selects one."""
    found = np.cos(np.arange(1, x.size + 1) * (seed + 1)).reshape(x.shape)
    return np.asarray(found + 0.5j * found if np.dtype(x.dtype).kind == "c" else found, x.dtype)


# label of a row -> what raises in JAX, and so in minijax: first or second derivatives, some axes of vmap
REFUSED = {
    **dict.fromkeys(("geqrf", "householder_product"), {"first", "second"}),
    "cholesky_update": {"first", "second", "vmap"},
    "reduce_window": {"first", "second", "vmap"},
    "reduce": {"vmap"},
}


class Subject:
    """The computations on one row. Each takes a library and the primitive's ``bind`` in this library."""

    def __init__(self, row):
        eqn = row.equation()
        self.args = row.args
        self.theirs = functools.partial(eqn.primitive.bind, **eqn.params)
        self.ours = functools.partial(borrowed(eqn.primitive).bind, **params_of_ours(eqn.params))
        self.single = not eqn.primitive.multiple_results
        self.floats = row.floats
        self.out_avals = [v.aval for v in eqn.outvars]
        self.outs = list(map(inexact, self.out_avals))

    def call(self, bind, *args):
        out = bind(*args)
        return [out] if self.single else list(out)

    def of_floats(self, bind, args):
        """The call as a function from its inexact operands to its inexact results, and these operands."""

        def fun(*point):
            full = list(args)
            for i, x in zip(self.floats, point, strict=True):
                full[i] = x
            return [out for out, kept in zip(self.call(bind, *full), self.outs, strict=True) if kept]

        return fun, [args[i] for i in self.floats]

    def derivatives(self):
        """The value and its derivatives, by name."""
        yield "value", lambda lib, bind, args: self.call(bind, *args)
        if self.floats and any(self.outs):
            yield "jvp", lambda lib, bind, args: jvp(lib, *self.of_floats(bind, args))
            yield "vjp", lambda lib, bind, args: vjp(lib, *self.of_floats(bind, args))
            yield "jvp of vjp", self.second

    def second(self, lib, bind, args):
        fun, point = self.of_floats(bind, args)
        return jvp(lib, lambda *xs: vjp(lib, fun, xs), point)

    def in_axes(self):
        """The values of in_axes: each axis of each operand alone, all first axes, and all last ones."""
        for i, x in enumerate(self.args):
            for d in range(x.ndim + 1):
                yield tuple(d if i == j else None for j in range(len(self.args)))
        if len(self.args) > 1:
            yield (0,) * len(self.args)
            yield tuple(x.ndim for x in self.args)

    def mapped(self, axes, lib, bind, both):
        stacked = [x if d is None else lib.numpy.stack([x, y], d) for x, y, d in zip(*both, axes, strict=True)]
        return lib.vmap(functools.partial(self.call, bind), axes)(*stacked)

    def scanned(self, lib, bind, both):
        def body(carry, xs):
            return carry, self.call(bind, *xs)

        return lib.lax.scan(body, np.float32(0), [lib.numpy.stack([x, y]) for x, y in zip(*both, strict=True)])[1]

    def chosen(self, lib, bind, both):
        return lib.lax.cond(
            abs(both[0][0]).sum() >= 0,
            lambda xs: self.call(bind, *xs),
            lambda xs: [lib.numpy.zeros(aval.shape, aval.dtype) for aval in self.out_avals],
            both[1],
        )


def another(x):
    """Another valid operand with the type of ``x``."""
    return np.asarray(x * 1.25, x.dtype) if inexact(x) else np.flip(x)


def jvp(lib, fun, point):
    return lib.jvp(fun, tuple(point), tuple([lib.numpy.asarray(direction(x, 2 + i)) for i, x in enumerate(point)]))


def vjp(lib, fun, point):
    outs, pull = lib.vjp(fun, *point)
    return pull([lib.numpy.asarray(direction(x, 7 + i)) for i, x in enumerate(outs)])


def check_text(subject):
    """Assert that the primitive's program is well typed, prints as in JAX, and is parsed with all parameters."""
    closed = mj.make_jaxpr(functools.partial(subject.call, subject.ours))(*subject.args)
    text = str(closed)
    assert text == str(jax.make_jaxpr(functools.partial(subject.call, subject.theirs))(*subject.args))
    (eqn,) = closed.eqns
    read = parse_jaxpr(text, primitives={eqn.primitive.name: eqn.primitive})
    typecheck_jaxpr(closed)
    typecheck_jaxpr(read)
    assert str(read) == text
    missing = [value for name, value in eqn.params.items() if name not in read.eqns[0].params]
    assert missing in ([], [None] * len(missing))
    found, wanted = params_of_jax(read.eqns[0].params), params_of_jax(eqn.params)
    for name in found:
        # jaxprs cannot be compared, and the text does not contain functions
        assert name in ("jaxpr", "computation") or found[name] == wanted[name]


@pytest.mark.parametrize("label", ROWS)
def test_borrowed_primitives_match_jax(label):
    subject = Subject(ROWS[label])
    both = subject.args, [*map(another, subject.args)]
    check_text(subject)
    single = dict(subject.derivatives())
    mapped = {axes: functools.partial(subject.mapped, axes) for axes in subject.in_axes()}
    refused = {}
    for runs, operands in ((single, subject.args), (mapped, both)):
        for name, run in [*runs.items()]:
            try:
                jax.eval_shape(functools.partial(run, jax, subject.theirs), operands)
            except Exception as error:
                refused[name] = runs.pop(name), error, operands
    kinds = {"jvp": "first", "vjp": "first", "jvp of vjp": "second"}
    assert {kinds.get(name, "vmap") for name in refused} == REFUSED.get(label, set())
    value = jax.jit(functools.partial(subject.call, subject.theirs))
    derived = {name: run for name, run in single.items() if name != "value"}
    wanted = jax.jit(lambda args: {name: run(jax, subject.theirs, args) for name, run in derived.items()})(both[0])
    wanted["value"] = value(*both[0])

    def everything(both):
        found = {name: run(mj, subject.ours, both[0]) for name, run in single.items()}
        batched = [run(mj, subject.ours, both) for run in mapped.values()]
        return found, batched, subject.scanned(mj, subject.ours, both), subject.chosen(mj, subject.ours, both)

    found, batched, scanned, chosen = mj.jit(everything)(both)
    assert_same(found, wanted)
    for axes, outs in zip(mapped, batched, strict=True):
        second = value(*[x if d is None else y for x, y, d in zip(*both, axes, strict=True)])
        assert_same(outs, [np.stack(pair) for pair in zip(wanted["value"], second, strict=True)])
    other = value(*both[1])
    assert_same(scanned, [np.stack(pair) for pair in zip(wanted["value"], other, strict=True)])
    assert_same(chosen, other)
    for name in {"value", "vjp"} & set(single):
        assert_same(single[name](mj, subject.ours, subject.args), wanted[name])
    for run, error, operands in refused.values():
        with pytest.raises((type(error), NotImplementedError)):
            run(mj, subject.ours, operands)


CHOLESKY, MATRIX = jax.lax.linalg.cholesky_p, ROWS["cholesky"].args[0]


def of_symmetric(cholesky, x):
    return (cholesky(x + x.T) ** 2).sum()


def in_scan(lib, cholesky, x):
    def body(carry, _):
        return cholesky(carry) + x, carry.sum()

    return lib.lax.scan(body, x, None, length=2)[1].sum()


def ruled(lib, cholesky, x):
    @lib.custom_jvp
    def fun(x):
        return cholesky(x)

    fun.defjvp(lambda primals, tangents: (fun(*primals), 2 * cholesky(primals[0]) * tangents[0]))
    return lib.jvp(fun, (x,), (x,))


USES = {
    "gradient of gradient": lambda lib, chol, x: lib.grad(
        lambda x: lib.grad(functools.partial(of_symmetric, chol))(x).sum()
    )(x),
    "checkpoint": lambda lib, chol, x: lib.grad(lib.checkpoint(functools.partial(of_symmetric, chol)))(x),
    "gradient of scan": lambda lib, chol, x: lib.grad(functools.partial(in_scan, lib, chol))(x),
    "custom rule": ruled,
    "pmap": lambda lib, chol, x: lib.pmap(functools.partial(of_symmetric, chol))(lib.numpy.stack([x, 2 * x])),
}


@pytest.mark.parametrize("use", USES)
def test_borrowed_primitives_work_inside_other_constructs(use):
    wanted = USES[use](jax, CHOLESKY.bind, jax.numpy.asarray(MATRIX))
    assert_same(USES[use](mj, borrowed(CHOLESKY).bind, mj.numpy.asarray(MATRIX)), wanted)


def test_each_call_keeps_its_precision_and_threads_may_share_primitives():
    cholesky = borrowed(CHOLESKY)
    with mj.enable_x64(True):
        wide = mj.numpy.asarray(MATRIX.astype(np.float64))
        assert mj.grad(functools.partial(of_symmetric, cholesky.bind))(wide).dtype == np.float64
    assert cholesky.bind(wide).dtype == mj.jit(cholesky.bind)(wide).dtype == np.float64

    def work():
        x = mj.numpy.asarray(np.eye(5, dtype=np.float32) * 4)
        return mj.grad(lambda x: mj.jit(cholesky.bind)(x).sum())(x)

    found = at_once(*[work] * 4)
    for one in found:
        assert_same(one, found[0])


def third_party(name, **rules):
    """A primitive that a third party defines for JAX: ``scale * x + y``."""

    def value(x, y, *, scale, **_):
        return x * float(scale) + y

    p = Primitive(name)
    p.def_abstract_eval(lambda x, y, **_: jax.core.ShapedArray(np.broadcast_shapes(x.shape, y.shape), x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(rules.get("lowered", value), multiple_results=False))
    return p


def test_rules_that_a_third_party_adds_later_are_borrowed():
    theirs = third_party("scaled_sum")
    p, x = borrowed(theirs), mj.numpy.arange(3.0)
    assert p.defined_at.startswith(__file__)
    assert_same(mj.jit(lambda x: p.bind(x, x, scale=2))(x), x * 3)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'scaled_sum' not implemented") as caught:
        mj.grad(lambda x: p.bind(x, x, scale=2).sum())(x)
    assert "is borrowed from JAX" in caught.value.__notes__[0] and "JAX has no such rule" in caught.value.__notes__[0]
    ad.defjvp(theirs, lambda t, x, y, *, scale: t * scale, lambda t, x, y, *, scale: t)
    batching.defbroadcasting(theirs)
    assert_same(mj.grad(lambda x: p.bind(x, x, scale=2).sum())(x), np.full(3, 3, np.float32))
    assert_same(mj.vmap(lambda x: p.bind(x, x, scale=2))(x[None]), 3 * x[None])
    assert check_rules(p, np.float32([0.5, 2]), np.float32([1, 3]), scale=2).ok


def test_function_params_are_freed_and_unhashable_params_are_refused():
    p, x = borrowed(third_party("scaled_by")), mj.numpy.arange(3.0)
    function = lambda: None  # noqa: E731
    alive = weakref.ref(function)
    assert_same(p.bind(x, x, scale=2, note=function), 3 * x)
    del function
    for i in range(40):
        p.called([x, x], {"scale": 2, "note": functools.partial(print, i)})
    jax.clear_caches()
    gc.collect()
    assert alive() is None
    with pytest.raises(TypeError, match="the value of parameter note was not hashable") as caught:
        p.bind(x, x, scale=2, note=[])
    assert "scaled_by is borrowed from JAX" in caught.value.__notes__[0]


def test_primitives_with_effects_are_refused():
    def calling(x, y, **_):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    x = mj.numpy.arange(3.0)
    with pytest.raises(NotImplementedError, match="calls Python when it runs.*minijax.pure_callback"):
        borrowed(third_party("calling", lowered=calling)).bind(x, x)
    p = Primitive("ordered")
    p.def_effectful_abstract_eval(lambda x: (jax.core.ShapedArray(x.shape, x.dtype), {jax.debug.DebugEffect()}))
    with pytest.raises(NotImplementedError, match="ordered has side effects"):
        borrowed(p).bind(x)


PROGRAM = """import jax, minijax
import minijax.numpy as jnp
from minijax.interop.borrowed import borrowed
chol = borrowed(jax.lax.linalg.cholesky_p)
x = jnp.array([[2., .5], [.5, 3.]])
def f(x):
    y = chol.bind(x)
    return (y * y).sum()
"""


@pytest.fixture(scope="module")
def session():
    made = batch.new_session({})
    for line in (*PROGRAM.splitlines()[:5], "\n".join(PROGRAM.splitlines()[5:])):
        assert made.run_line(line).error is None
    return made


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%rules cholesky", ["jvp _cholesky_jvp_rule borrowed from JAX", "lax/linalg.py", "JAX has no such rule"]),
        ("%rules", ["○", "borrowed from JAX"]),
        ("%check cholesky x", ["_cholesky_shape_rule at", "borrowed from JAX"]),
        ("%log minijax.grad(f)(x) --verbose", ["derived from jvp rule _cholesky_jvp_rule (borrowed from JAX)"]),
        ("%hlo --links f(x)", ["@lapack_spotrf_ffi", "// eqn 1 · <minijax-6>:2 · cholesky"]),
        ("%graph minijax.grad(f)(x)", ["= cholesky a", "triangular_solve"]),
        ("%diff f(x) --by grad", ["backward pass", "= cholesky a"]),
        ("%nan f(-x)", ["first NaN made by cholesky", "<minijax-6>:2"]),
    ],
)  # fmt: skip
def test_commands_name_borrowed_primitives(session, line, expected):
    outcome = session.run_line(line)
    assert outcome.error is None
    text = " ".join((plain(outcome.shown, 200) + plain(outcome.summary, 200)).split())
    for each in expected:
        assert each in text, text


READER = """import json, sys
import minijax, minijax.numpy as jnp
from minijax.tools.recording import storage
found = storage.load(sys.argv[1])
names = [node.rule.name for _, node in found.walk() if getattr(node, "rule", None)]
x = minijax.jit(lambda x: x @ x.T + jnp.eye(2))(jnp.ones((2, 2)))
assert "jax" not in sys.modules
print(json.dumps(names))
import jax
from minijax.interop.borrowed import borrowed
print(json.dumps(borrowed(jax.lax.linalg.cholesky_p).bind(x).tolist()))
"""


def test_recordings_load_without_jax(session, tmp_path):
    recording = session.run_line("%step minijax.grad(f)(x)").recording
    storage.save(recording, tmp_path / "recording.json")
    command = [sys.executable, "-c", READER, str(tmp_path / "recording.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names, value = map(json.loads, done.stdout.splitlines())
    assert "_cholesky_jvp_rule (borrowed from JAX)" in names
    np.testing.assert_allclose(np.tril(value), np.linalg.cholesky([[3, 2], [2, 3]]), rtol=1e-5)


@pytest.mark.parametrize("label", ["cumsum", "irfft", "top_k", "triangular_solve"])
def test_rules_of_borrowed_primitives_agree(label):
    eqn = ROWS[label].equation()
    report = check_rules(borrowed(eqn.primitive), *ROWS[label].args, **params_of_ours(eqn.params))
    assert report.ok, report
