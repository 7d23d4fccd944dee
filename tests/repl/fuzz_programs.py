"""Programs for ``fuzz`` to look into, and the lines that do: names, values, origins, conditions, the backward pass.

The programs are of every kind: derivatives, loops and their vmaps, rules of one's own, effects, errors, library
functions, names and texts that are not ASCII, JAX's own functions. What is asked of them often makes sense, and often
not: names that another program has, iterations that there are not, conditions that cannot be read.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from minijax.core.named import Frozen
from minijax.tools.commands.table import COMMANDS
from tests.tools.lines import BAD, GOOD


class Program(Frozen):
    """A program: the inputs that define it, calls of it, and names that its variables have."""

    inputs: tuple[str, ...]
    calls: tuple[str, ...]
    names: tuple[str, ...]


PROGRAMS = (
    Program(("def f(x): return sin(x) * 2. - x",), ("f(3.0)", "f(v)", "grad(f)(x)", "vmap(grad(f))(v)"), ("x",)),
    Program(
        (
            "p = {'w': jnp.ones((3, 2)) * 0.5, 'b': jnp.zeros(2)}",
            "def mlp(p, u):\n    h = jnp.tanh(u @ p['w'] + p['b'])\n    return jnp.sum(h ** 2)\n",
        ),
        ("mlp(p, v)", "grad(mlp)(p, v)", "jit(grad(mlp))(p, v)", "vmap(mlp, (None, 0))(p, jnp.ones((2, 3)))")
        + ("value_and_grad(mlp)(p, v)", "vmap(grad(mlp), (None, 0))(p, jnp.ones((2, 3)))"),
        ("h", "p", "u", "p['w']"),
    ),
    Program(
        (
            "def body(c, a):\n    new = c * a + 1.\n    return new, sin(new)\n",
            "def roll(c):\n    last, ys = lax.scan(body, c, jnp.arange(3.) + 1.)\n    return ys.sum() + last\n",
        ),
        ("roll(2.)", "grad(roll)(2.)", "jit(grad(roll))(2.)", "vmap(grad(roll))(v)", "jvp(roll, (2.,), (1.,))")
        + ("linearize(roll, 2.)[1](1.)", "grad(checkpoint(roll))(2.)"),
        ("new", "c", "a", "ys", "last"),
    ),
    Program(
        ("def halve(x):\n    r = lax.while_loop(lambda s: s > 1., lambda s: s / 2., x)\n    return r * 2.\n",),
        ("halve(40.)", "vmap(halve)(jnp.arange(3.) * 10.)", "jvp(halve, (9.,), (1.,))", "jit(vmap(halve))(v)"),
        ("s", "r", "x"),
    ),
    Program(
        ("def power(x):\n    acc = lax.fori_loop(0, 4, lambda i, t: t * x, 1.)\n    return acc\n",),
        ("power(1.5)", "grad(power)(1.5)", "vmap(power)(v)", "jit(power)(2.)"),
        ("t", "acc", "i"),
    ),
    Program(
        ("def pick(x):\n    s = lax.cond(x > 0, sin, cos, x)\n    return s + lax.switch(1, (sin, cos), x)\n",),
        ("pick(1.)", "grad(pick)(-1.)", "vmap(pick)(v - 1.)", "jit(pick)(x)", "vmap(grad(pick))(v)"),
        ("s", "x"),
    ),
    Program(
        (
            "@custom_vjp\ndef clip(x): return x * 2.\n",
            "clip.defvjp(lambda x: (clip(x), x), lambda res, ct: (jnp.clip(ct * res, -1., 1.),))",
        ),
        ("clip(3.)", "grad(clip)(3.)", "vmap(grad(clip))(v)", "jit(grad(lambda q: clip(q) ** 2))(0.3)"),
        ("res", "ct", "x"),
    ),
    Program(("deep = checkpoint(lambda z: sin(sin(z)))",), ("grad(deep)(2.)", "vmap(grad(deep))(v)"), ("z",)),
    Program(
        ("def twice(x):\n    t = jnp.exp(x * 0.5)\n    return jnp.sum(t * t)\n",),
        ("jvp(grad(twice), (v,), (v,))", "hessian(twice)(v)", "grad(lambda q: grad(twice)(q))(1.)")
        + ("jacfwd(jacrev(twice))(v)", "vjp(twice, v)[1](1.)")
        + ("jvp(lambda a: jvp(twice, (a,), (1.,))[1], (1.,), (1.,))",),
        ("t", "x", "a"),
    ),
    Program(
        ("def bad_log(x):\n    lo = jnp.log(x - 5.)\n    return jnp.sum(jnp.where(x > 6., lo, 0.))\n",),
        ("bad_log(x)", "grad(bad_log)(v)", "jit(grad(bad_log))(x)", "vmap(grad(bad_log))(v)"),
        ("lo", "x"),
    ),
    Program(
        (
            "def fails(x):\n    mid = sin(x)\n    return mid + jnp.ones(4)\n",
            "def raises(x): t = x * 2.; raise ValueError(t)",
        ),
        ("fails(v)", "vmap(grad(fails))(v)", "jit(fails)(v)", "raises(x)", "grad(raises)(2.)", "vmap(jit(raises))(v)"),
        ("mid", "t", "x"),
    ),
    Program(
        ("def untraced(x):\n    if x > 0: return sin(x)\n    return float(x)\n",),
        ("untraced(2.)", "jit(untraced)(2.)", "vmap(untraced)(v)", "grad(untraced)(2.)", "grad(untraced)(-2.)"),
        ("x",),
    ),
    Program(
        ("def library(m):\n    q = jnp.linalg.norm(m)\n    return jnp.sum(jnp.sort(nn.softmax(m.ravel()))) * q\n",),
        ("library(A)", "grad(library)(A)", "jnp.linalg.solve(jnp.eye(2), jnp.ones(2))", "nn.relu(v)", "jnp.cumsum(v)")
        + ("random.normal(random.PRNGKey(0), (3,))", "jnp.einsum('ij,kj->ik', A, A)", "jnp.fft.fft(v)"),
        ("q", "m"),
    ),
    Program(
        (
            "def grüße(größe):\n    λ = sin(größe) * 2.\n    return λ\n",
            "def 面積(半径):\n    円 = 3.14 * 半径 ** 2\n    return 円\n",
            "wide = {'日本語🙂': v, 'a\\nb': A, '\\x1b[31m': x, 'long' * 60: [v] * 3}",
        ),
        ("grüße(2.)", "grad(grüße)(2.)", "面積(2.)", "vmap(grad(面積))(v)", "sum(面積(wide['日本語🙂']))"),
        ("λ", "größe", "円", "半径"),
    ),
    Program(
        ("def noisy(x):\n    y2 = x * 2.\n    debug.print('{} 日', y2)\n    return pure_callback(np.sin, y2, y2)\n",),
        ("noisy(2.)", "jit(noisy)(2.)", "vmap(noisy)(v)", "grad(lambda x: x * debug.print('x') or x)(1.)"),
        ("y2", "x"),
    ),
    Program(
        ("def train(w):\n    for i in range(4): w = w - 0.1 * grad(twice)(w)\n    return w\n",),
        ("train(0.5)", "jit(train)(0.5)", "grad(train)(0.5)", "vmap(train)(v)"),
        ("w", "t", "i"),
    ),
    Program(
        ("import jax as J\ndef theirs(x):\n    k = J.numpy.sin(x) * 2.\n    return k.sum()\n",),
        ("theirs(2.)", "J.grad(theirs)(2.)", "J.jit(J.vmap(theirs))(np.arange(3.))")
        + ("J.vmap(J.grad(theirs))(np.ones(2))",),
        ("k", "x"),
    ),
)  # fmt: skip
DEFINITIONS = tuple(each for program in PROGRAMS for each in program.inputs)
OTHER_NAMES = (
    "y", "nothing", "é", "x.y", "1", "", "'h'", "h[0]", "_", "a", "ct of x", "[", "%x", "日本", "None", "\x1b",
)  # fmt: skip
TREES = (
    "p", "wide", "d", "[p, {'a': None}]", "(v, [A] * 9)", "v", "x", "f", "'日本'", "{}", "missing", "train", "{1: p}",
)  # fmt: skip
LEAVES = ("['w']", "['b'][0]", "[0]", "['日本語🙂']", "[9]", "['nothing']", "x", "[", ".w", "['a\\nb']", "[-1]", "")
CONDITIONS = (
    "{n} > 1", "{n}.max() > 0.5", "nan({n})", "{n} became NaN", "{n} changed", "{n}.shape changed", "line {i}",
    "{n} > {m}", "{n} == {m} or not {n} < 1", "any({n} > 1)", "{n}.dtype == 'float32'", "{n}[0] > 1", "inf({n})",
    "{n} >", "3 > 2", "{n}.nothing() > 1", "line", "line x", "line 99999999999", "open('a') > 1", "{n} in {m}",
    "{n} became", "({n}", "{n} > 1j", "{n} > 'text'", "{n}.sum() + {m}.sum() > 1", "-{n} < 1 < 2", "{n}", "lambda: 1",
    "{n} ** 9 ** 9 > 1", "{n} @ {m} > 1", "~{n}", "{n} // 0 > 1", "__import__('os')", "{n} := 3",
)  # fmt: skip
EXPRESSIONS = (
    "{n}", "{n} + 1", "{n}.sum()", "{n} * {m}", "jnp.sum({n})", "{n}[0]", "{n}[99]", "{n}.shape", "1 / 0", "{n} +", "",
    "missing", "[{n}, {m}]", "grad(f)({n})", "exec('1')", "é", "'日本🙂' * 40", "{n}.T @ {n}", "f(f32[3])", "{n} = 2",
    "raise_", "(yield)", "float('nan')", "lambda: {n}", "{n} if {n} else {m}", "np.asarray({n})", "print({n})", "{{}}",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "7", "-1", "99999999999", "0,1", "x", "", "1.5", "٣")
MESH = "minijax.NamedSharding(minijax.make_mesh((1,), ('i',))"
SPEC = "minijax.P()"
SHARDED = (
    "minijax.shard_map(lambda a: lax.psum(a * 2., 'i'), mesh=minijax.sharding.Mesh(minijax.devices()[:1], 'i'), "
    "in_specs=minijax.P('i'), out_specs=minijax.P())(v)"
)
SHARDED_TWICE = SHARDED.replace("[:1]", "[:2]")
# A command of the table whose lines take long, or run other lines.
SLOW_LINES = ("%tour", "%time", "%compare", "%gallery", "%run")


class Looks:
    """Lines that look into programs, by a source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.table = [line for line, _ in (*GOOD, *BAD) if not line.startswith(SLOW_LINES)]

    def pick(self, *among: str) -> str:
        return self.random.choice(among)

    def program(self) -> Program:
        return self.random.choice(PROGRAMS)

    def name(self, program: Program) -> str:
        """A name of the program's, most often."""
        return self.pick(*(program.names if self.random.random() < 0.75 else (*self.program().names, *OTHER_NAMES)))

    def call(self) -> str:
        """A call of one of the programs."""
        return self.pick(*self.program().calls)

    def filled(self, templates: tuple[str, ...], program: Program) -> str:
        """One of ``templates`` with names in it."""
        return self.pick(*templates).format(n=self.name(program), m=self.name(program), i=self.random.randint(0, 30))

    def line(self) -> str:
        """A line that looks into a program."""
        program = self.program()
        ways: tuple[Callable[[Program], str], ...] = (
            self.values, self.values, self.origin, self.origin, self.find, self.find, self.backward, self.tree,
            self.step, self.step, self.step, self.named, self.table_line, self.table_line, self.debug,
            self.compiled, self.toured,
        )  # fmt: skip
        return self.random.choice(ways)(program)

    def maybe(self, option: str, value: str, share: float = 0.25) -> str:
        return f" {option} {value}" if self.random.random() < share else ""

    def values(self, program: Program) -> str:
        return (
            f"%values {self.pick(*program.calls)}"
            + self.maybe("--of", self.name(program), 0.4)
            + self.maybe("--iteration", self.pick(*NUMBERS))
            + self.maybe("--example", self.pick(*NUMBERS))
            + self.maybe("--retrace", "", 0.3)
            + self.maybe("--most", self.pick(*NUMBERS), 0.1)
        )

    def origin(self, program: Program) -> str:
        command = self.pick("%origin", "%origin", "%origin", "%graph")
        return (
            f"{command} {self.pick(*program.calls)}{self.pick('', '', '[0]', '.sum()')}"
            + self.maybe("--of", self.name(program), 0.5)
            + self.maybe("--depth", self.pick(*NUMBERS))
            + self.maybe("--retrace", "", 0.2 if command == "%origin" else 0)
            + self.maybe("--names", "", 0.4 if command == "%graph" else 0)
            + self.maybe("--most", self.pick(*NUMBERS), 0.1)
        )

    def find(self, program: Program) -> str:
        where = f" in {self.pick(*program.calls)}" if self.random.random() < 0.7 else ""
        return (
            f"%find {self.filled(CONDITIONS, program)}{where}"
            + self.maybe("--step", "")
            + self.maybe("--retrace", "", 0.15)
        )

    def backward(self, program: Program) -> str:
        return (
            f"%backward {self.pick(*program.calls)}"
            + self.maybe("--cotangent", self.pick("2.0", "v", "x", "missing", "'a'", "1j", ""))
            + self.maybe("--most", self.pick(*NUMBERS), 0.15)
            + self.maybe("--retrace", "", 0.2)
        )

    def tree(self, program: Program) -> str:
        what = self.pick(*TREES, *program.calls)
        return (
            f"%tree {what}"
            + self.maybe("--leaf", self.pick(*LEAVES), 0.4)
            + self.maybe("--depth", self.pick(*NUMBERS))
            + self.maybe("--most", self.pick(*NUMBERS), 0.15)
            + self.maybe("--exact", "", 0.2)
        )

    def step(self, program: Program) -> str:
        return (
            self.pick("%step", f"%step {self.pick(*program.calls)}", f"%step {self.pick(*program.calls)}")
            + self.maybe("--retrace", "", 0.2)
            + self.maybe("--at", self.pick("error", "nan", "3", "jvp:1", "sin", "x", "line 2"), 0.1)
            + self.maybe("--text", "", 0.1)
            + self.maybe("--most", self.pick("0", "5", "50"), 0.1)
        )

    def named(self, program: Program) -> str:
        """A command that can say the user's names, or tell a derivation."""
        call = self.pick(*program.calls)
        return self.pick(
            f"%jaxpr {call} --names",
            f"%jaxpr {call} --names --style tutorial --source",
            f"%diff {call} --by grad --tutorial",
            f"%diff {call} --by {self.pick('grad', 'jvp', 'vmap', 'jit', 'nothing')} --names",
            f"%diff {call} --with {self.call()} --names",
            f"%nan {call}{self.pick('', ' --grad')}",
            f"%log {call}{self.pick('', ' --verbose', ' --most 3')}",
            f"%why {call}",
            f"%hlo {call} {self.pick('', '--links', '--links --eqn 1', '--links --line 2')}",
            f"%{self.pick('grad', 'vjp', 'linearize', 'jit', 'keys', 'vmap', 'jvp')} {call}",
        )

    def compiled(self, program: Program) -> str:
        """A command about what XLA makes of a call, how long its parts take, and where its values lie."""
        call = self.pick(*program.calls)
        sharded = f"minijax.device_put({self.pick('v', 'A', 'x')}, {MESH}, {SPEC}))"
        return self.pick(
            f"%shards {self.pick(*TREES, call, sharded)}" + self.maybe("--nothing", "", 0.03),
            f"%hlo {call} --partitioned" + self.maybe("--links", "", 0.2),
            f"%hlo {self.pick(SHARDED, SHARDED_TWICE)} --partitioned",
            f"%passes {call} --open",
            f"%passes {call} --open" + self.maybe("--pass", self.pick(*NUMBERS), 0.3),
            f"%time {call}{self.pick('', ' --alone')} --lines" + self.maybe("--most", self.pick(*NUMBERS)),
            f"%time {call}{self.pick('', ' --alone')} --timeline" + self.maybe("--lines", "", 0.5),
            f"%roofline {call}",
        )

    def body(self) -> str:
        """What stands in a cell: a call of a program, its value named, or its definition before it."""
        program = self.program()
        call, name = self.pick(*program.calls), self.pick(*program.names)
        return self.pick(call, f"out = {call}\nout", "\n".join((*program.inputs, call)), f"x = 2.0\n{call}\n{name}")

    def toured(self, program: Program) -> str:
        return self.tour()

    def tour(self) -> str:
        """A line of the guided tour or of its exercises, or an attempt at one."""
        return "%tour" + self.pick(
            "", " next", " back", " again", " stop", " stop",
            f" {self.random.randint(0, 7)}.{self.random.randint(0, 9)}",
            " exercises", " ex 3", f" ex {self.random.randint(0, 12)}", f" ex {self.random.randint(1, 11)}",
            " check", " check", " check", " hint", " hint", " solution", " solution --use", " solution --use",
            " edit", " edit", " ex nothing", " check --use", " ex jvp-rule",
        )  # fmt: skip

    def table_line(self, program: Program) -> str:
        """A line of the commands' own tests: good ones, and mistakes."""
        return self.random.choice(self.table)

    def debug(self, program: Program) -> str:
        """What failed, and what can be asked after it."""
        return self.pick(
            self.pick(*program.calls),
            self.pick(*program.calls),
            "%debug",
            "%debug x",
            "%leaks",
            "%values",
            "%origin",
            "%step",
            f"%find {self.filled(CONDITIONS, program)}",
        )


assert {"values", "origin", "find", "backward", "tree", "debug", "step", "graph", "diff"} <= set(COMMANDS)
