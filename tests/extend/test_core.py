"""JAX's names for authors of primitives, interpreters and transformations: ``extend`` and ``interpreters``."""

import functools
import importlib
import subprocess
import sys
import textwrap

import jax
import jax.extend.core.primitives as jax_primitives
import jax.extend.linear_util
import jax.extend.random
import jax.extend.source_info_util
import jax.interpreters.partial_eval
import numpy as np
import pytest

import minijax as mj
from minijax.extend import source_info_util
from minijax.extend.core import JaxprEqn, primitives

BOTH = [mj, jax]
VECTOR = np.array([1.0, 2.0], np.float32)


def part(lib, name):
    return importlib.import_module(f"{lib.__name__}.{name}")


def wrapped(lib, fun):
    wrap, info = part(lib, "extend.linear_util").wrap_init, jax.api_util.debug_info("test", fun, (1.0, 2.0), {})
    return wrap(fun, debug_info=info)


def test_primitives_have_the_names_of_jax():
    names = [name for name in dir(jax_primitives) if name.endswith("_p")]
    assert len(names) == 175
    for name in names:
        ours, theirs = getattr(primitives, name), getattr(jax_primitives, name)
        assert (ours.name, ours.multiple_results) == (theirs.name, theirs.multiple_results)
    assert (
        primitives.sin_p is mj.lax.sin_p and primitives.jit_p is mj.make_jaxpr(mj.jit(abs))(1.0).jaxpr.eqns[0].primitive
    )
    with pytest.raises(AttributeError, match=r"no attribute 'jitt_p'.*Did you mean jit_p"):
        primitives.jitt_p  # noqa: B018


def test_the_module_of_primitives_needs_no_jax():
    program = "import sys, minijax.extend.core.primitives as p; p.sin_p, p.call_p; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def calling(lib, primitive):
    fun = wrapped(lib, lambda x, y: [lib.numpy.sin(x) * y, x + 1])
    p = getattr(part(lib, "extend.core.primitives"), primitive)
    return lambda x, y: p.bind(x, y, subfuns=(fun,), name="f")


USES = {
    "evaluated": lambda lib, f: f(1.0, 2.0),
    "staged": lambda lib, f: str(lib.make_jaxpr(f)(1.0, 2.0)),
    "jvp": lambda lib, f: str(lib.make_jaxpr(lambda x, y: lib.jvp(f, (x, y), (x, y)))(1.0, 2.0)),
    "vmap": lambda lib, f: str(lib.make_jaxpr(lib.vmap(f))(VECTOR, VECTOR)),
}


@pytest.mark.parametrize("primitive", ["call_p", "closed_call_p"])
@pytest.mark.parametrize("use", USES)
def test_primitives_that_call_functions_match_jax(primitive, use):
    ours, theirs = (USES[use](lib, calling(lib, primitive)) for lib in BOTH)
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), ours, theirs)


def test_user_defined_effects_appear_in_jaxprs():
    for lib in BOTH:
        core = part(lib, "extend.core")

        class Shout(core.Effect):
            pass

        shout, p = Shout(), core.Primitive("shout")
        p.def_effectful_abstract_eval(lambda aval, shout=shout: (aval, {shout}))
        jaxpr = lib.make_jaxpr(lambda x, p=p, lib=lib: (p.bind(x), lib.jit(p.bind)(x), 2 * x)[2])(1.0)
        assert jaxpr.effects == {shout} and [eqn.primitive.name for eqn in jaxpr.eqns] == ["shout", "jit", "mul"]


def logging(lib):
    """A transformation that records the primitives applied to its tracers: ``log(f)(x) = (f(x), names)``."""
    core, extend = part(lib, "core"), part(lib, "extend.core")

    class Logged(core.Tracer):
        def __init__(self, trace, value):
            self._trace, self.value = trace, value

        @property
        def aval(self):
            return lib.typeof(self.value)

    class Logger(core.Trace):
        def __init__(self, parent, tag):
            super().__init__()
            self.parent, self.tag, self.names = parent, tag, []

        def process_primitive(self, primitive, tracers, params):
            self.names.append(primitive.name)
            values = [x.value if isinstance(x, Logged) and x._trace.tag is self.tag else x for x in tracers]
            with extend.set_current_trace(self.parent):
                out = primitive.bind_with_trace(self.parent, values, list(map(lib.typeof, values)), params)
            return [Logged(self, x) for x in out] if primitive.multiple_results else Logged(self, out)

    def log(f):
        def called(*args):
            with extend.take_current_trace() as parent:
                trace = Logger(parent, extend.TraceTag())
                with extend.set_current_trace(trace):
                    out = f(*[Logged(trace, x) for x in args])
                return out.value if isinstance(out, Logged) else out, trace.names

        return called

    return log


def chain(lib):
    return lambda x: lib.lax.mul(lib.lax.sin(x), lib.lax.exp(x))


INTERPRETED = {
    "alone": lambda lib, log: log(chain(lib))(0.5),
    "under grad": lambda lib, log: lib.grad(lambda x: log(chain(lib))(x)[0])(0.5),
    "under vmap": lambda lib, log: lib.vmap(lambda x: log(chain(lib))(x)[0])(VECTOR),
    "around jit": lambda lib, log: log(lib.jit(chain(lib)))(0.5),
    "around cond": lambda lib, log: log(lambda x: lib.lax.cond(lib.lax.gt(x, 0.0), chain(lib), lambda x: x, x))(0.5),
}


@pytest.mark.parametrize("use", INTERPRETED)
def test_a_user_defined_interpreter_works_as_in_jax(use):
    ours, theirs = (INTERPRETED[use](lib, logging(lib)) for lib in BOTH)
    if isinstance(theirs, tuple):
        assert ours[1] == theirs[1]
        ours, theirs = ours[0], theirs[0]
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_an_interpreter_that_has_ended_cannot_be_set():
    traces = []
    mj.jvp(lambda x: (traces.append(x._trace), x)[1], (1.0,), (1.0,))
    with pytest.raises(RuntimeError, match="has ended"), mj.extend.core.set_current_trace(traces[0]):
        pass


def about(aval):
    return None if aval is None else (aval.shape, str(aval.dtype), aval.weak_type)


def test_functions_of_partial_evaluation_match_jax():
    found = []
    for lib in BOTH:
        pe, core = part(lib, "interpreters.partial_eval"), part(lib, "core")
        aval, lax = core.ShapedArray((2,), np.dtype(np.float32)), lib.lax
        fun = wrapped(lib, lambda x, y, lax=lax: [lax.mul(lax.sin(x), y), lax.neg(y), x, lax.exp(x), 3.0])
        jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(fun, [aval, aval])
        seen = [str(jaxpr), list(map(about, out_avals)), consts]
        known, unknown = pe.PartialVal.known(lib.numpy.asarray(VECTOR)), pe.PartialVal.unknown(aval)
        for instantiate in (False, True, [True, False, True, False, False]):
            jaxpr, pvals, consts = pe.trace_to_jaxpr_nounits(fun, [known, unknown], instantiate)
            values = [None if x is None else np.asarray(x).round(5).tolist() for _, x in pvals]
            seen += [
                str(jaxpr),
                [about(a) for a, _ in pvals],
                values,
                [np.asarray(c).round(5).tolist() for c in consts],
            ]
            seen += [[pval.is_known() for pval in pvals], about(pvals[0].get_aval())]
        assert known.get_known() is known[1] and isinstance(known, tuple)
        traced = []
        lib.make_jaxpr(lambda x, traced=traced: (traced.append(x), x)[1])(1.0)
        assert isinstance(traced[0], pe.DynamicJaxprTracer)
        found.append(seen)
    assert found[0] == found[1]


def test_recorded_equations_have_a_line():
    def other(x):
        return mj.lax.sin(x)

    eqn = mj.make_jaxpr(other)(1.0).jaxpr.eqns[0]
    assert isinstance(eqn, JaxprEqn) and "(test_recorded" in source_info_util.summarize(eqn.source_info)
    line = eqn.source_info.traceback

    def repeated(x):
        with source_info_util.user_context(line):
            y = mj.lax.cos(x)
        return mj.lax.exp(y)

    eqns = mj.make_jaxpr(repeated)(1.0).jaxpr.eqns
    assert [e.source_info.traceback == line for e in eqns] == [True, False]
    with pytest.raises(TypeError) as error, source_info_util.user_context(line):
        mj.lax.add(np.ones(2), np.ones(3))
    assert "test_core.py" in error.value.__notes__[-1]
    assert source_info_util.current().traceback is not None and source_info_util.new_source_info().traceback is None
    for util in (source_info_util, jax.extend.source_info_util):
        with util.user_context(None):
            pass


def test_files_can_be_excluded_from_user_code():
    program = """
        import importlib, sys, types
        lib = importlib.import_module(sys.argv[1])
        util = importlib.import_module(sys.argv[1] + ".extend.source_info_util")
        inner = types.ModuleType("inner")
        exec(compile("def f(lax, x):\\n    return lax.sin(x)", "/packages/inner.py", "exec"), vars(inner))

        def line():
            eqn = lib.make_jaxpr(lambda x: inner.f(lib.lax, x))(1.0).jaxpr.eqns[0]
            return "/packages" in util.summarize(eqn.source_info)

        before = line()
        util.register_exclusion("/packages/")
        print(before, line())
    """
    text = textwrap.dedent(program)
    for lib in BOTH:
        run = subprocess.run([sys.executable, "-c", text, lib.__name__], capture_output=True, text=True)
        assert run.stdout.split() == ["True", "False"], run.stderr


def test_user_defined_keys_match_jax():
    found = []
    for lib in BOTH:
        random, jnp = part(lib, "extend.random"), lib.numpy
        impl = random.define_prng_impl(
            key_shape=(1,),
            seed=lambda seed, jnp=jnp: jnp.asarray([seed * 3 + 1]).astype("uint32"),
            split=lambda key, shape, jnp=jnp: key[0] + jnp.arange(np.prod(shape), dtype="uint32").reshape(*shape, 1),
            random_bits=lambda key, width, shape, jnp=jnp: jnp.full(shape, key[0] * 7, f"uint{width}"),
            fold_in=lambda key, data: key + data,
            name="counting",
            tag="cnt",
        )
        key = lib.random.key(5, impl=impl)
        keys = lib.random.split(key, 3)
        seen = [lib.random.key_data(key), lib.random.key_data(keys), lib.random.bits(key, (2,))]
        seen += [
            lib.vmap(lambda k, lib=lib: lib.random.bits(k, (2,)))(keys),
            lib.random.key_data(lib.random.fold_in(key, 4)),
        ]
        seen += [
            lib.random.uniform(key, (3,)),
            random.threefry_2x32((np.uint32(1), np.uint32(2)), jnp.arange(5, dtype="uint32")),
        ]
        seen += [lib.random.key_data(random.seed_with_impl(random.threefry_prng_impl, 7))]
        found.append([np.asarray(x).tolist() for x in seen] + [str(keys.dtype)])
    assert found[0] == found[1]


def test_a_primitive_that_calls_a_jaxpr_is_lowered():
    found = []
    for lib in BOTH:
        mlir, core = part(lib, "interpreters.mlir"), part(lib, "extend.core")
        p = core.Primitive("called")
        p.multiple_results = True
        p.def_abstract_eval(lambda *avals, call_jaxpr: call_jaxpr.out_avals)
        mlir.register_lowering(p, functools.partial(mlir.core_call_lowering, name="inner"))
        closed = lib.make_jaxpr(lambda x, y, lib=lib: (lib.numpy.sin(x) * y, x))(VECTOR, VECTOR)
        fun = lib.jit(lambda x, p=p, closed=closed: p.bind(x, x + 1, call_jaxpr=closed))
        text = fun.lower(VECTOR).as_text()
        assert "call @inner(" in text and "func.func private @inner(" in text
        found.append([np.asarray(x).round(5).tolist() for x in fun(VECTOR)])
    assert found[0] == found[1]
