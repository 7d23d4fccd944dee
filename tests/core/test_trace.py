"""The interpreter stack: threads, exceptions, dead tracers."""

import threading

import pytest

import minijax
from minijax import errors, lax
from minijax.core.trace import base_main, reset_stack, stack_depth, state


def test_the_stack_is_back_at_evaluation_after_any_exception():
    class Strange(BaseException):
        pass

    def bad(x):
        lax.sin(x)
        raise Strange

    for transform in (minijax.grad, minijax.vmap, minijax.jit, minijax.make_jaxpr, minijax.jacfwd):
        with pytest.raises(Strange):
            transform(bad)(minijax.device_put([1.0, 2.0][:1])[0] if transform is not minijax.vmap else
            lax.iota("float32", 3))
        assert stack_depth() == 0 and state.dynamic is base_main.trace and state.source is None


def test_two_threads_trace_at_once_and_do_not_see_each_other():
    barrier = threading.Barrier(2)
    results, depths = {}, {}

    def work(name, k):
        def f(x):
            barrier.wait(timeout=20)
            depths[name] = stack_depth()
            y = lax.sin(x) * k
            barrier.wait(timeout=20)
            return y

        results[name] = str(minijax.make_jaxpr(f)(1.0))

    threads = [threading.Thread(target=work, args=(n, k)) for n, k in (("a", 2.0), ("b", 3.0))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=30)
    assert depths == {"a": 1, "b": 1}
    assert "2.0:f32[]" in results["a"] and "3.0" not in results["a"]
    assert "3.0:f32[]" in results["b"] and "2.0" not in results["b"]


def test_a_dead_tracer_says_what_made_it_and_what_to_do():
    leaked = []

    def f(x):
        leaked.append(lax.sin(x))
        return x

    for transform, label in ((minijax.jit, "jit"), (minijax.grad, "jvp"), (minijax.make_jaxpr, "make_jaxpr")):
        leaked.clear()
        transform(f)(1.0)
        with pytest.raises(errors.UnexpectedTracerError) as caught:
            lax.cos(leaked[0])
        text = str(caught.value)
        assert "side effect" in text and label in text and "Return the value" in text
        assert stack_depth() == 0


def test_reset_stack_brings_an_interrupted_thread_back():
    from minijax.core.trace import push_main
    from minijax.interpreters.jvp import JVPTrace

    main = push_main(JVPTrace, "jvp")
    push_main(JVPTrace, "jvp")
    assert stack_depth() == 2
    reset_stack()
    assert stack_depth() == 0 and not main.alive
