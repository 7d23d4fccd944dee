"""Programs of derivatives of derivatives, custom rules inside of transformations, and calls that come again; each is a
function of the library (minijax, or JAX) and of its NumPy, and gives a call.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Ball(NamedTuple):
    at: Any
    speed: Any


def jvp_of_jvp(lib: Any, np_: Any) -> Any:
    def f(x):
        y = np_.sin(x)
        z = y * x
        return z

    def slope(x):
        value, moved = lib.jvp(f, (x,), (1.0,))
        return moved

    return lib.jvp(slope, (0.75,), (2.0,))


def forward_over_reverse(lib: Any, np_: Any) -> Any:
    def loss(w):
        h = np_.tanh(w)
        total = np_.sum(h * h)
        return total

    direction = np_.array([1.0, -2.0, 0.5])
    return lib.jvp(lib.grad(loss), (np_.array([0.5, 0.25, -1.0]),), (direction,))


def reverse_over_forward(lib: Any, np_: Any) -> Any:
    def f(x):
        y = np_.exp(x) * x
        return y

    def slope(v):
        value, moved = lib.jvp(f, (v,), (1.0,))
        doubled = moved * 2.0
        return doubled

    return lib.grad(slope)(0.5)


def hessian(lib: Any, np_: Any) -> Any:
    def loss(w):
        s = np_.sin(w)
        total = np_.sum(s * w)
        return total

    return lib.hessian(loss)(np_.array([0.5, -1.0]))


def second_derivative_of_scan(lib: Any, np_: Any) -> Any:
    def step(carry, x):
        new = np_.sin(carry * x)
        return new, new

    def rolled(c):
        last, seen = lib.lax.scan(step, c, np_.array([0.5, 2.0]))
        return last

    return lib.grad(lib.grad(rolled))(0.75)


def linear_transposed(lib: Any, np_: Any) -> Any:
    def f(x):
        y = x * 3.0
        z = np_.sum(y)
        w = y[0] + z
        return w

    given = np_.array([1.0, 2.0, 3.0])
    (back,) = lib.linear_transpose(f, given)(2.0)
    return back


def linearized(lib: Any, np_: Any) -> Any:
    def f(x):
        y = np_.cos(x)
        z = y * y
        return z

    value, linear = lib.linearize(f, 0.5)
    return value, linear(1.0), linear(-2.0)


def pulled_back(lib: Any, np_: Any) -> Any:
    def f(a, b):
        p = a * b
        q = np_.sin(p) + a
        return q, p

    (q, p), back = lib.vjp(f, 0.5, 2.0)
    first = back((1.0, 0.0))
    return first


def custom_vjp_in_scan(lib: Any, np_: Any) -> Any:
    wrapped = lib.custom_vjp(lambda a, b: a * b)

    def forward(u, v):
        out = u * v
        return out, (u, v)

    def backward(kept, ct):
        u, v = kept
        to_u = ct * v * 0.5
        to_v = ct * u
        return to_u, to_v

    wrapped.defvjp(forward, backward)

    def step(carry, x):
        new = wrapped(carry, x) + 1.0
        return new, carry

    def rolled(c, xs):
        last, seen = lib.lax.scan(step, c, xs)
        out = last * 2.0
        return out

    return lib.grad(rolled, (0, 1))(0.75, np_.array([0.5, 2.0, -1.0]))


def custom_vjp_in_vmap_in_jit(lib: Any, np_: Any) -> Any:
    wrapped = lib.custom_vjp(lambda a: np_.sin(a))

    def forward(u):
        kept = np_.cos(u)
        return np_.sin(u), kept

    def backward(kept, ct):
        given = ct * kept
        return (given,)

    wrapped.defvjp(forward, backward)

    def f(x):
        y = wrapped(x * 2.0)
        z = y * y
        return z

    return lib.jit(lib.vmap(lib.grad(f)))(np_.array([0.25, 0.5]))


def custom_jvp_twice(lib: Any, np_: Any) -> Any:
    wrapped = lib.custom_jvp(lambda x: np_.sin(x))

    def rule(primals, tangents):
        (p,), (t,) = primals, tangents
        moved = np_.cos(p) * t
        return np_.sin(p), moved

    wrapped.defjvp(rule)

    def f(x):
        y = wrapped(x)
        z = y * x
        return z

    def slope(x):
        return lib.grad(f)(x)

    return lib.jvp(slope, (0.5,), (1.0,))


def branches_backwards(lib: Any, np_: Any) -> Any:
    def f(x):
        y = lib.lax.cond(x > 1.0, lambda v: np_.sin(v) * v, lambda v: v * 2.0, x)
        z = y * 3.0
        return z

    return lib.grad(f)(1.5), lib.grad(f)(0.5)


def kept_by_a_policy(lib: Any, np_: Any) -> Any:
    def block(x):
        s = np_.sin(x)
        t = np_.exp(s)
        return t

    def f(x):
        y = lib.checkpoint(block, policy=lib.checkpoint_policies.nothing_saveable)(x)
        z = y * x
        return z

    return lib.jit(lib.grad(f))(0.75)


def loops_of_python(lib: Any, np_: Any) -> Any:
    def f(x):
        total = x * 0.0
        for i in range(3):
            x = np_.sin(x) * (i + 1.0)
            total += x
        return total

    return lib.grad(f)(0.75)


def the_same_function_again(lib: Any, np_: Any) -> Any:
    def half(v):
        w = v * 0.5
        return w

    def f(x):
        a = half(x)
        b = half(np_.sin(a))
        return a * b

    return lib.grad(f)(3.0)


def calls_of_a_cached_trace(lib: Any, np_: Any) -> Any:
    @lib.jit
    def half(v):
        w = np_.cos(v)
        u = w * 0.5
        return u

    def f(x):
        a = half(x)
        b = half(a)
        return a * b

    return lib.grad(f)(3.0)


def looks_at_numbers(lib: Any, np_: Any) -> Any:
    def f(x):
        y = np_.exp(x)
        if y > 1.0:
            y = y * x
        z = y + x
        return z

    return lib.value_and_grad(f)(0.5)


def state_in_a_named_tuple(lib: Any, np_: Any) -> Any:
    def step(ball, dt):
        ball = Ball(ball.at + dt * ball.speed, ball.speed - dt)
        return ball, ball.at

    def f(speed):
        start = Ball(speed * 0.0, speed)
        end, seen = lib.lax.scan(step, start, np_.array([0.5, 0.25]))
        height = end.at * end.speed
        return height

    return lib.grad(f)(2.0)


PROGRAMS = {
    program.__name__: program
    for program in (
        jvp_of_jvp,
        forward_over_reverse,
        reverse_over_forward,
        hessian,
        second_derivative_of_scan,
        linear_transposed,
        linearized,
        pulled_back,
        custom_vjp_in_scan,
        custom_vjp_in_vmap_in_jit,
        custom_jvp_twice,
        branches_backwards,
        kept_by_a_policy,
        loops_of_python,
        the_same_function_again,
        calls_of_a_cached_trace,
        looks_at_numbers,
        state_in_a_named_tuple,
    )
}
