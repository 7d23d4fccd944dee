"""Random programs, written as a person would write them: text, arguments and the calls to ask about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

NAMES = "a b c d h k m q r t u v w y z left right total state hidden scale".split()
UNARY = (
    "jnp.sin({})",
    "jnp.cos({})",
    "jnp.tanh({})",
    "jnp.exp(-({}) * ({}))",
    "-{}",
    "({}) * 0.5",
    "{} + 1.",
    "jnp.abs({})",
)
BINARY = (
    "{} * {}",
    "{} + {}",
    "{} - {}",
    "({}) / (1. + ({}) * ({}))",
    "jnp.maximum({}, {})",
    "jnp.where({} > {}, {}, 0.5)",
)
SUMMED = ("jnp.sum({})", "({}).mean()", "jnp.dot({}, {})", "{}[0]", "jnp.max({})")
# Operations that make NaNs and infinities of ordinary numbers, and expressions that mask them.
RISKS = (
    "jnp.log({})",
    "jnp.sqrt({})",
    "{} / ({} - {})",
    "jnp.exp({} * 100.)",
    "jnp.arcsin({} * 2.)",
    "1. / jnp.maximum({}, 0.)",
)
MASKED = ("jnp.where({0} > 0., {1}, 0.)", "jnp.nan_to_num({1})")

OF_JAX = (
    "import jax, jax.numpy as jnp\nfrom jax import lax, jit, grad, vmap, jvp, value_and_grad, custom_jvp, custom_vjp\n"
)
RULES = (
    """\
@custom_jvp
def soft(x):
    return jnp.log1p(jnp.exp(x))
@soft.defjvp
def soft_jvp(primals, tangents):
    x, = primals
    dx, = tangents
    slope = 1. / (1. + jnp.exp(-x))
    return soft(x), slope * dx
""",
    """\
@custom_vjp
def soft(x):
    return jnp.sin(x)
def soft_fwd(x):
    kept = jnp.cos(x)
    return jnp.sin(x), kept
def soft_bwd(kept, g):
    back = g * kept
    return (back * 2.,)
soft.defvjp(soft_fwd, soft_bwd)
""",
)
CLASS = """\
class Layer:
    def __init__(self, w, gain=1.5):
        self.w = w
        self.gain = gain
    def __call__(self, x):
        y = x * self.w
        return jnp.tanh(y) * self.gain
"""
DECORATOR = """\
def doubled(f):
    def inner(*args, **kwargs):
        out = f(*args, **kwargs)
        return out * 2.
    return inner
"""
GENERATOR = """\
def steps(x, n):
    for i in range(n):
        x = jnp.sin(x) + i
        yield x
"""


@dataclass
class Helper:
    """A function of the program: its parameters (name and kind, ``v``ector or ``s``calar) and its result's kind."""

    name: str
    params: list[tuple[str, str]]
    result: str


@dataclass
class Program:
    """A program, the call of its function ``f``, and what else the commands may ask.

    ``text`` begins in JAX's names if ``of_jax``. ``setup`` binds the arguments; ``call`` is ``f(...)``, whose arguments
    are names and numbers; ``loops`` says whether it holds a loop that cannot be differentiated backward.
    """

    seed: int
    text: str
    setup: str
    call: str
    x64: bool
    risky: bool
    forward_only: bool
    arguments: Sequence[str] = ()
    features: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        return self.text + self.setup


class Writer:
    """Writes one program."""

    def __init__(self, seed: int, risky: bool = False) -> None:
        self.random = random.Random(seed)
        self.seed, self.risky = seed, risky
        self.lines: list[str] = []
        self.helpers: list[Helper] = []
        self.features: set[str] = set()
        self.forward_only = False
        self.taken: set[str] = set()  # names of the function around, which an inner function may read

    # Expressions

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def leaf(self, scope: dict[str, str], kind: str) -> str:
        found = [name for name, its in scope.items() if its == kind]
        if found:
            return self.pick(found)
        vectors = [name for name, its in scope.items() if its == "v"]
        if kind == "s":
            return f"jnp.sum({self.pick(vectors)})" if vectors else "1.5"
        scalars = [name for name, its in scope.items() if its == "s"]
        return f"{self.pick(scalars)} * jnp.arange(1., 4.)" if scalars else "jnp.arange(1., 4.)"

    def expression(self, scope: dict[str, str], kind: str, depth: int = 2) -> str:
        """An expression of a kind; a scalar may be made of a vector, and a vector of a vector and a scalar."""
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(scope, kind)
        roll = self.random.random()
        if self.risky and roll < 0.2:
            return self.risk(scope, kind)
        if kind == "s" and roll < 0.4:
            text = self.pick(SUMMED)
            return self.filled(text, [self.expression(scope, "v", 0) for _ in range(2)])
        called = [h for h in self.helpers if h.result == kind]
        if called and roll > 0.8:
            return self.call_of(self.random.choice(called), scope)
        if roll < 0.6:
            return self.filled(self.pick(UNARY), [self.expression(scope, kind, depth - 1)])
        other = self.expression(scope, self.pick("vs") if kind == "v" else "s", depth - 1)
        return self.filled(self.pick(BINARY), [self.expression(scope, kind, depth - 1), other])

    def risk(self, scope: dict[str, str], kind: str) -> str:
        inner = self.expression(scope, kind, 0)
        text = self.filled(self.pick(RISKS), [inner])
        return self.pick(MASKED).format(inner, text) if self.random.random() < 0.4 else text

    def filled(self, text: str, parts: list[str]) -> str:
        """``text`` with a part at each {}; parts that are sums get brackets."""
        parts = [f"({p})" if any(f" {o} " in p for o in "*+-/>") or p.startswith("-") else p for p in parts]
        return text.format(*(parts[i % len(parts)] for i in range(text.count("{}"))))

    def call_of(self, helper: Helper, scope: dict[str, str]) -> str:
        """A call with some of the arguments by keyword, in any order."""
        given = [(name, self.expression(scope, kind, self.pick((0, 1)))) for name, kind in helper.params]
        by_position = self.random.randint(0, len(given)) if helper.name not in ("soft", "wrapped") else len(given)
        named = given[by_position:]
        self.random.shuffle(named)
        return f"{helper.name}({', '.join([text for _, text in given[:by_position]] + [f'{n}={t}' for n, t in named])})"

    # Statements

    def function(self, name: str, params: list[tuple[str, str]], result: str, budget: int, indent: str = "") -> None:
        """A function of ``budget`` statements."""
        self.lines.append(f"{indent}def {name}({', '.join(n for n, _ in params)}):")
        self.body(dict(params), result, budget, indent + "    ")

    def body(self, scope: dict[str, str], result: str, budget: int, indent: str) -> None:
        for _ in range(budget):
            self.statement(scope, indent)
        self.lines.append(f"{indent}return {self.expression(scope, result, 1)}")

    def target(self, scope: dict[str, str]) -> str:
        """A new name, or one that is used already."""
        reuse = [n for n in scope if n not in self.taken]
        return self.pick(reuse) if reuse and self.random.random() < 0.35 else self.others(1)[0]

    def others(self, count: int) -> list[str]:
        """Different names that may be stored to here."""
        return self.random.sample([n for n in NAMES if n not in self.taken], count)

    def statement(self, scope: dict[str, str], indent: str) -> None:
        kinds = [self.assign] * 4 + [self.alias, self.several, self.augmented, self.python_loop, self.comprehension]
        kinds += [self.swap, self.walrus, self.closure]
        if len(indent) == 4:
            kinds += [self.scan, self.fori, self.cond, self.mapped, self.generator, self.layer, self.while_loop]
        self.random.choice(kinds)(scope, indent)

    def put(self, indent: str, text: str) -> None:
        self.lines.append(indent + text)

    def assign(self, scope: dict[str, str], indent: str) -> None:
        kind = self.pick("vvs")
        text = self.expression(scope, kind)
        name = self.target(scope)
        scope[name] = kind
        self.put(indent, f"{name} = {text}")

    def alias(self, scope: dict[str, str], indent: str) -> None:
        old = self.pick(list(scope))
        name = self.target(scope)
        scope[name] = scope[old]
        self.put(indent, f"{name} = {old}")

    def several(self, scope: dict[str, str], indent: str) -> None:
        kinds = self.pick("vs"), self.pick("vs")
        texts = [self.expression(scope, kind, 1) for kind in kinds]
        first, second = self.others(2)
        scope.update({first: kinds[0], second: kinds[1]})
        self.put(indent, self.pick(("{}, {} = {}, {}", "({}, {}) = [{}, {}]")).format(first, second, *texts))

    def swap(self, scope: dict[str, str], indent: str) -> None:
        if len(scope) < 2:
            return self.assign(scope, indent)
        a, b = self.random.sample(list(scope), 2)
        scope[a], scope[b] = scope[b], scope[a]
        self.put(indent, f"{a}, {b} = {b}, {a}")

    def augmented(self, scope: dict[str, str], indent: str) -> None:
        name = self.pick(list(scope))
        self.put(indent, f"{name} {self.pick('+-*')}= {self.expression(scope, 's' if scope[name] == 's' else 'v', 1)}")

    def walrus(self, scope: dict[str, str], indent: str) -> None:
        kind = self.pick("vs")
        inner, name = self.others(2)
        text = f"{name} = ({inner} := {self.expression(scope, kind, 1)}) * 0.5"
        scope.update({inner: kind, name: kind})
        self.put(indent, text)

    def python_loop(self, scope: dict[str, str], indent: str) -> None:
        name = self.target(scope)
        kind = scope.get(name, "")
        if not kind:
            kind = self.pick("vs")
            self.put(indent, f"{name} = {self.expression(scope, kind, 0)}")
        scope[name] = kind
        vector = self.leaf(scope, "v")
        head, extra = self.random.choice(
            [
                (f"for i in range({self.random.randint(2, 3)}):", {"i": "s"}),
                ("for i, g in enumerate((0.5, 1.5)):", {"i": "s", "g": "s"}),
                (f"for e, g in zip(({vector}, {vector} + 1.), (1., 2.)):", {"e": "v", "g": "s"}),
            ]
        )
        self.put(indent, head)
        inner = {**scope, **extra}
        if self.random.random() < 0.5:
            other = self.pick([n for n in NAMES if n not in scope])
            self.put(indent + "    ", f"{other} = {self.expression(inner, kind, 1)}")
            inner[other] = scope[other] = kind
        index = self.pick(("", " + i")) if "i" in extra else ""
        self.put(indent + "    ", f"{name} = jnp.tanh({self.expression(inner, kind, 1)}){index}")

    def comprehension(self, scope: dict[str, str], indent: str) -> None:
        kind = self.pick("vs")
        inner = self.expression({**scope, "e": "s"}, kind, 1)
        name = self.target(scope)
        scope[name] = kind
        if self.random.random() < 0.5:
            self.put(indent, f"{name} = sum([{inner} for e in (0.5, 1.)]) * 0.5")
        else:
            self.put(indent, f"parts = [{inner} for e in (0.5, 1.)]")
            self.put(indent, f"{name} = parts[0] + parts[1]")

    def generator(self, scope: dict[str, str], indent: str) -> None:
        kind = self.pick("vs")
        name = self.target(scope)
        self.put(indent, f"for {name} in steps({self.expression(scope, kind, 1)}, 2):")
        scope[name] = kind
        other = self.pick(NAMES)
        self.put(indent + "    ", f"{other} = {name} * 0.5")
        scope[other] = kind

    def layer(self, scope: dict[str, str], indent: str) -> None:
        name = self.target(scope)
        self.put(indent, f"layer = Layer({self.leaf(scope, 's')}, gain={self.pick(('0.5', '2.'))})")
        self.put(indent, f"{name} = layer({self.expression(scope, 'v', 1)})")
        scope[name] = "v"

    def closure(self, scope: dict[str, str], indent: str) -> None:
        kind = self.pick("vs")
        name = self.target(scope)
        own = self.pick([each for each in NAMES if each not in scope])
        self.put(indent, "def local(x):")
        self.put(indent + "    ", f"{own} = {self.expression({**scope, 'x': kind}, kind, 1)}")
        self.put(indent + "    ", f"return {own} * x")
        text = f"local({self.expression(scope, kind, 1)})"
        if self.random.random() < 0.3:
            text = f"local({text})"
        scope[name] = kind
        self.put(indent, f"{name} = {text}")

    # Loops and branches of lax

    def traced(self, scope: dict[str, str], indent: str, head: str, own: dict[str, str], result: str) -> None:
        """A function of one or two statements, to be traced; ``result`` gets two expressions: a vector and a scalar."""
        self.put(indent, head)
        inner = {**scope, **own}
        self.taken = set(scope) - set(own)
        for _ in range(self.random.randint(0, 2)):
            self.random.choice((self.assign, self.alias, self.several))(inner, indent + "    ")
        self.taken = set()
        values = [f"jnp.tanh({self.expression(inner, kind, 1)})" for kind in "vs"]
        self.put(indent + "    ", "return " + result.format(*values))

    def scan(self, scope: dict[str, str], indent: str) -> None:
        c, e, last, every = self.random.sample(NAMES, 4)
        first = self.leaf(scope, "v")
        self.traced(scope, indent, f"def body({c}, {e}):", {c: "v", e: "s"}, "{0}, {1}")
        self.put(indent, f"{last}, {every} = lax.scan(body, {first}, jnp.arange({self.random.randint(2, 4)}.))")
        self.put(indent, f"{every} = {every}.sum()")
        scope.update({last: "v", every: "s"})

    def fori(self, scope: dict[str, str], indent: str) -> None:
        i, c, out = self.random.sample(NAMES, 3)
        first = self.leaf(scope, "v")
        self.traced(scope, indent, f"def turn({i}, {c}):", {i: "s", c: "v"}, "{0}")
        self.put(indent, f"{out} = lax.fori_loop(0, {self.random.randint(2, 4)}, turn, {first})")
        scope[out] = "v"

    def while_loop(self, scope: dict[str, str], indent: str) -> None:
        if self.random.random() < 0.6:
            return self.assign(scope, indent)
        self.forward_only = True
        out = self.target(scope)
        first = self.leaf(scope, "v")
        self.put(
            indent, f"_, {out} = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5), (0, {first}))"
        )
        scope[out] = "v"

    def cond(self, scope: dict[str, str], indent: str) -> None:
        out = self.target(scope)
        tested, given = self.leaf(scope, "s"), self.leaf(scope, "v")
        if self.random.random() < 0.5:
            branches = "lambda b: b * 2., lambda b: jnp.sin(b)"
        else:
            self.traced(scope, indent, "def yes(b):", {"b": "v"}, "{0}")
            self.traced(scope, indent, "def no(b):", {"b": "v"}, "{0}")
            branches = "yes, no"
        self.put(indent, f"{out} = lax.cond({tested} > 0.5, {branches}, {given})")
        scope[out] = "v"
        self.features.add("cond")

    def mapped(self, scope: dict[str, str], indent: str) -> None:
        out = self.target(scope)
        given = self.leaf(scope, "v")
        if self.random.random() < 0.5:
            self.put(indent, f"{out} = vmap(lambda e: {self.expression({**scope, 'e': 's'}, 's', 1)})({given})")
        else:
            self.put(indent, "def each(e):")
            around = {name: kind for name, kind in scope.items() if name != "m"}
            self.put(indent + "    ", f"m = {self.expression({**around, 'e': 's'}, 's', 1)}")
            self.put(indent + "    ", "return m * e")
            self.put(indent, f"{out} = vmap(each)({given})")
        scope[out] = "v"

    # The program

    def program(self) -> Program:
        of_jax = self.random.random() < 0.3
        x64 = self.random.random() < 0.5
        self.put("", self.pick(RULES).rstrip())
        self.put("", (CLASS + DECORATOR + GENERATOR).rstrip())
        self.helpers.append(Helper("soft", [("x", "s")], "s"))
        self.helpers.append(Helper("soft", [("x", "v")], "v"))
        for name in self.random.sample(("lay", "mix", "wrapped", "fast"), 3):
            kinds = [self.pick("vs") for _ in range(self.random.randint(1, 3))]
            params = list(zip(self.random.sample(NAMES, len(kinds)), kinds, strict=True))
            helper = Helper(name, params, self.pick("vs"))
            if name == "wrapped":
                self.put("", "@doubled")
            if name == "fast":
                self.put("", "@jit")
            self.function(name, helper.params, helper.result, self.random.randint(0, 3))
            self.helpers.append(helper)
        tree, bound = self.pick(("p", "params")), [("x", "v"), ("n", "s")]
        keys = self.random.sample(["w", "b", "s1", "s0"], 3)
        self.random.shuffle(bound)
        self.put("", f"def f({tree}, {', '.join(n for n, _ in bound)}):")
        scope = dict(bound)
        if self.random.random() < 0.5:
            self.put("    ", f"for name in {tree}:")
            self.put("        ", f"x = x * {tree}[name] + 1.")
        scope |= {f"{tree}['{key}']": "s" for key in keys}
        own, leaves = dict(bound), {n: k for n, k in scope.items() if "[" in n}
        for _ in range(self.random.randint(3, 8)):
            self.statement(own, "    ")
            if self.random.random() < 0.5:
                self.put("    ", f"{(name := self.target(own))} = {self.expression({**own, **leaves}, 's', 1)}")
                own[name] = "s"
        self.put("    ", f"return jnp.sum({self.expression(own, 'v', 2)}) + {self.leaf(own, 's')}")
        digits = lambda: round(self.random.uniform(-2.0, 2.0), 2)  # noqa: E731
        setup = f"params = {{{', '.join(f'{key!r}: jnp.array({digits()})' for key in keys)}}}\n"
        setup += f"v0 = jnp.array([{digits()}, {digits()}, {digits()}])\nn0 = jnp.array({digits()})\n"
        arguments = {tree: "params", "x": "v0", "n": "n0"}
        given = [(tree, "params")] + [(n, arguments[n]) for n, _ in bound]
        by_position = self.random.randint(1, 3)
        named = given[by_position:]
        self.random.shuffle(named)
        parts = [value for _, value in given[:by_position]] + [f"{n}={value}" for n, value in named]
        text = (OF_JAX if of_jax else "") + "\n".join(self.lines) + "\n"
        return Program(
            self.seed, text, setup, f"f({', '.join(parts)})", x64, self.risky, self.forward_only, parts, self.features
        )


def program(seed: int) -> Program:
    """The program of a seed; each third one may make NaNs."""
    return Writer(seed, seed % 3 == 2).program()
