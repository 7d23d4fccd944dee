"""Lines for ``fuzz``: valid and invalid Python and commands, from a grammar and a seed.

Nothing in the grammar loops for long, makes large arrays, leaves the program or touches files outside the current
folder.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from minijax.tools.commands.arguments import Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.table import COMMANDS
from minijax.tools.session.settings import TABLE
from tests.repl.fuzz_programs import DEFINITIONS, Looks

# What every session begins with, and is given again now and then: lines may have deleted or changed it.
SETUP = (
    "import numpy as np, minijax.numpy as jnp; from minijax import lax, random, jit, grad, vmap, jvp, vjp",
    "x = 3.0; y = 2; v = jnp.arange(3.0); A = jnp.ones((2, 3)); d = {'a': x, 'b': (v, y)}",
    "def f(x): return sin(x) * 2. - x",
    "def g(x, y=1.0):\n    z = f(x) * y\n    return z + cos(z)\n",
    "@custom_jvp\ndef h(x): return sin(x)\n",
    "h.defjvps(lambda t, ans, x: t * cos(x))",
    "def branchy(x): return x if x > 0 else -x",
    "sin, cos, exp = jnp.sin, jnp.cos, jnp.exp",
    *DEFINITIONS,
    "%x64 off",
    "%pop --all",
)
# So often is a line of it given again.
AGAIN = 4
# What lines assign and push; and what they only read, for without these names the other lines would tell nothing.
ASSIGNED = ("x", "y", "v", "A", "d", "f", "g", "h", "z", "w", "é", "missing", "_", "Out", "dx")
NAMES = (*ASSIGNED, "jnp", "lax", "np")
FUNCTIONS = ("f", "g", "h", "sin", "cos", "jnp.sum", "branchy", "jnp.tanh", "abs", "len", "float", "missing", "lax.sin")
ATOMS = (
    "x", "x", "v", "v", "y", "A", "d", "0.5", "2", "-1", "1e30", "True", "None", "'text'", "()", "[]", "{}", "f32[3]",
    "jnp.ones(3)", "np.arange(3)", "jnp.zeros((2, 0))", "d['a']", "d['b'][0]", "1j", "jnp.float16(2)", "b'x'", "...",
    "jnp.int32(7)", "float('nan')", "random.PRNGKey(0)", "missing", "é", "_", "x.shape", "v.T", "v[0]", "v[::2]", "f",
)  # fmt: skip
# What makes sense nearly everywhere: most lines are to get somewhere.
SENSIBLE = ("x", "x", "x", "v", "v", "0.5", "2.", "v[0]", "d['a']", "jnp.ones(3)", "x * v", "jnp.sum(v)", "A", "y")
SENSIBLE_FUNCTIONS = ("f", "f", "g", "h", "sin", "cos", "jnp.sum", "jnp.tanh")
RAISED = ("KeyboardInterrupt", "RecursionError", "MemoryError", "GeneratorExit", "BaseException('x')")
OPERATORS = ("+", "-", "*", "/", "@", "==", "<", "%", "//", "and", "in", "is", ",")
NOISE = (
    "\x00", "\x07", "\x1b[2J", "\x1b]0;title\x07", "\r", "\t", "\u202e", "\ufeff", "🙂", "日本", "é", "\x7f", "\x85",
    "'", '"', '"""', "(", ")", "[", "{", "}", ":", "=", "%", "%%", "?", "\\", "#", ";", "--", "@", "\n", "\n    ", " ",
)  # fmt: skip


class Lines:
    """An endless source of lines; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.looks = Looks(self.random)

    def choose(self, *ways: Callable[[], str]) -> str:
        return self.random.choice(ways)()

    def line(self) -> str:
        """The next line."""
        self.count += 1
        if self.count % AGAIN == 0:
            return SETUP[self.count // AGAIN % len(SETUP)]
        kind = self.random.random()
        if kind < 0.12:
            line = self.statement()
        elif kind < 0.18:
            line = self.expression(3)
        elif kind < 0.72:
            line = self.looks.line()
        elif kind < 0.86:
            line = self.command()
        elif kind < 0.91:
            line = self.level()
        elif kind < 0.94:
            line = self.cell()
        elif kind < 0.95:
            line = self.long()
        elif kind < 0.97:
            line = self.random.choice(("?", "??", "f?", "f??", "jnp.sin?", "?x", "%grad?", "missing?", "x.y.z?", "é?"))
        else:
            line = "".join(self.random.choice((*NOISE, *NAMES)) for _ in range(self.random.randint(1, 12)))
        return self.damaged(line) if self.random.random() < 0.12 else line

    # --- Python

    def expression(self, depth: int) -> str:
        """An expression; many make no sense."""
        pick = self.random.choice
        if depth <= 0 or self.random.random() < 0.25:
            return self.atom()
        if self.random.random() < 0.4:
            return f"{self.function(depth)}({self.atom()})"

        def inner() -> str:
            return self.expression(depth - 1)

        return self.choose(
            lambda: f"{self.function(depth - 1)}({inner()})",
            lambda: f"{self.function(depth - 1)}({inner()})",
            lambda: f"{pick(FUNCTIONS)}({inner()}, {inner()})",
            lambda: f"{inner()} {pick(OPERATORS)} {inner()}",
            lambda: f"({inner()})[{inner()}]",
            lambda: f"jvp({self.function(depth - 1)}, ({inner()},), ({inner()},))",
            lambda: f"vjp({self.function(depth - 1)}, {inner()})[1]({inner()})",
            lambda: f"linearize({self.function(depth - 1)}, {inner()})",
            lambda: f"make_jaxpr({self.function(depth - 1)})({inner()})",
            lambda: f"lax.cond({inner()}, {self.function(depth - 1)}, {self.function(depth - 1)}, {inner()})",
            lambda: f"lax.fori_loop(0, 3, lambda i, c: {inner()}, {inner()})",
            lambda: f"lax.scan(lambda c, e: (c, {inner()}), {inner()}, v)",
            lambda: f"[{inner()} for i in range(2)]",
            lambda: f"{inner()} if {inner()} else {inner()}",
            lambda: f"jnp.{pick(('sum', 'reshape', 'where', 'stack', 'dot', 'max', 'nothing'))}({inner()}, {inner()})",
        )

    def atom(self) -> str:
        """A value, most often one that makes sense."""
        return self.random.choice(SENSIBLE if self.random.random() < 0.8 else ATOMS)

    def name_of_function(self) -> str:
        """Likewise a function."""
        return self.random.choice(SENSIBLE_FUNCTIONS if self.random.random() < 0.8 else FUNCTIONS)

    def function(self, depth: int) -> str:
        """An expression that is a function, or nearly one."""
        if depth <= 0:
            return self.name_of_function()
        wrapper = self.random.choice(
            ("grad", "vmap", "jit", "checkpoint", "jacfwd", "jacrev", "value_and_grad", "grad", "vmap", "custom_jvp")
        )
        return self.choose(
            self.name_of_function,
            lambda: f"{wrapper}({self.function(depth - 1)})",
            lambda: f"(lambda x: {self.expression(depth - 1)})",
        )

    def statement(self) -> str:
        """A statement of one line or a few."""
        name = self.random.choice(ASSIGNED)
        value = self.expression(2)
        return self.choose(
            lambda: f"{name} = {value}",
            lambda: f"{name} = {value};",
            lambda: f"{name} = {value}",
            lambda: f"z = {value}",
            lambda: f"{name}: int = {value}",
            lambda: f"{name} += {value}",
            lambda: f"del {self.random.choice(('z', 'w', 'x', 'missing'))}",
            lambda: f"assert {value}, 'told'",
            lambda: f"print({value})",
            lambda: f"def {self.random.choice('fgwz')}(x): return {value}",
            lambda: f"def f(x):\n    {name} = {value}\n    return x\n",
            lambda: f"for i in range(3): {name} = {value}",
            lambda: f"if {value}: {name} = {value}\nelse:\n    pass\n",
            lambda: f"try:\n    {value}\nexcept TypeError as error:\n    {name} = 1\n",
            lambda: f"with enable_x64(): {value}",
            lambda: f"with {value}: pass",
            lambda: f"raise ValueError({value})",
            lambda: f"raise {self.random.choice(RAISED)}",
            lambda: f"class C:\n    def __repr__(self): return {value}\n\nC()",
            lambda: "def loop(n): return loop(n + 1)\nloop(0)\n",
            lambda: f"import {self.random.choice(('os', 'missing_module', 'minijax', 'math as m', 'numpy.linalg'))}",
            lambda: "from __future__ import annotations",
            lambda: f"{value}; {value}",
            lambda: f"# {value}",
            lambda: f"yield {value}",
            lambda: f"await {value}",
            lambda: "def outer(x):\n    leaked.append(x)\n    return x\nleaked = []; jit(outer)(1.); leaked[0] + 1\n",
        )

    def long(self) -> str:
        """Much of something."""
        return self.choose(
            lambda: " + ".join(["x"] * 2000),
            lambda: "(" * 300 + "x" + ")" * 300,
            lambda: "[" * 80 + "]" * 80,
            lambda: "'" + "long text " * 2000 + "'",
            lambda: "{" + ", ".join(f"{i}: v" for i in range(300)) + "}",
            lambda: "x = " + "-" * 3000 + "1",
            lambda: "\n".join(f"a{i} = {i}" for i in range(300)) + "\n",
            lambda: "%grad " + "f(" * 120 + "x" + ")" * 120,
            lambda: "%" + "a" * 5000,
            lambda: "if 1:\n" + "".join(" " * i + "if 1:\n" for i in range(1, 40)) + " " * 40 + "x\n",
        )

    # --- commands

    def command(self) -> str:
        """A command with options: right, wrong, missing, twice, unknown."""
        command = self.random.choice(list(COMMANDS.values()))
        if command.name == "tour":
            return self.looks.tour()
        form = "%" if command.line else "%%"
        words = [form + command.name]
        if self.random.random() < 0.85:
            words.append(self.text_for(command))
        for param in command.params:
            if param.kind != "text" and self.random.random() < 0.3:
                words += [param.option, self.value_for(param)]
        if self.random.random() < 0.06:
            words.append(self.random.choice(("--nothing", "--", "---x", "--axis", "--by", "--most 0", ";", "--all")))
        self.random.shuffle(words[1:])
        return " ".join(filter(None, words)) + self.random.choice(("", "", "", ";", " "))

    def called(self) -> str:
        """A call that makes sense, for the commands that run one."""
        return f"{self.function(2)}({self.atom()})"

    def text_for(self, command: Command) -> str:
        """What stands behind the name: often a call, sometimes what the command is for, sometimes anything."""
        name = command.name
        special: Callable[[], str] | None = {
            "step": lambda: self.called() if self.random.random() < 0.5 else self.looks.call(),
            "log": self.called,
            "push": lambda: self.level().partition(" ")[2],
            "help": lambda: self.random.choice((*COMMANDS, "nothing", "")),
            "doc": lambda: self.random.choice(NAMES),
            "panels": lambda: self.random.choice(("on", "off", "stack time", "stak", "jaxpr,hlo")),
            "config": self.setting,
            "x64": lambda: self.random.choice(("on", "off", "perhaps", "")),
            "history": lambda: self.random.choice(("", "5", "-1", "x", "9" * 30)),
            "rules": lambda: self.random.choice(("", "sin", "scan", "nothing", "é")),
            "check": lambda: self.random.choice(("sin", "nothing", "mul_p", "f")),
            "export": lambda: self.random.choice(("a.json", "b.html", "c.txt", "", "no/such/a.html", "--force a.json")),
            "time": lambda: self.random.choice(("sin(x)", "missing", "f(v)")),
            "compare": lambda: self.random.choice(("sin(x)", "missing")),
            "shards": lambda: self.random.choice(("x", "v", "A", "d", "mlp(p, v)", "f")),
        }.get(name)
        if special is not None and self.random.random() < 0.8:
            return special()
        if self.random.random() < 0.8:
            return self.looks.call() if self.random.random() < 0.6 else f"{self.function(1)}({self.atom()})"
        return self.expression(2)

    def setting(self) -> str:
        choice = self.random.choice(list(TABLE.values()))
        words = (*choice.choices, "on", "off", "5", "nothing", "")
        name = self.random.choice((choice.name, choice.name, "colour", "jax_debug_nans"))
        return f"{name} {self.random.choice(words)}"

    def value_for(self, param: Param) -> str:
        """A value for an option, not always one that fits."""
        if param.kind == "flag":
            return self.random.choice(("", "", "", "yes"))
        if param.choices:
            return self.random.choice((*param.choices, "nothing", ""))
        if param.kind in ("int", "ints"):
            return self.random.choice(("0", "1", "-1", "0,1", "x", "", "7"))
        return self.random.choice((self.random.choice(ATOMS), self.expression(1), "", "nothing"))

    def level(self) -> str:
        """Interpreters at the prompt, opened and closed."""
        kind = self.random.choice(("jvp", "vmap", "jaxpr", "linearize", "grad", "vjp", "jit", "nothing"))
        name = self.random.choice(("x", "v", "z", "w") if self.random.random() < 0.8 else ASSIGNED)
        value = self.random.choice(("f32[3]", "f32[]", "i32[]")) if kind in ("jaxpr", "jit") else self.atom()
        return self.choose(
            lambda: f"%push {kind} {name}={value}",
            lambda: f"%push {kind} {name}={value}",
            lambda: f"%push {kind} {name}={value} d{name}={self.random.choice(ATOMS)}",
            lambda: f"%push {kind} {name}={value} --axis {self.random.choice(('0', '1', 'x'))}",
            lambda: f"%push {kind}",
            lambda: f"%pop {self.expression(1)}",
            lambda: f"%pop {name}",
            lambda: "%pop",
            lambda: "%pop",
            lambda: "%pop --all",
            lambda: "%stack",
            lambda: "%tracers",
        )

    def cell(self) -> str:
        """A cell, with a body or without."""
        command = self.random.choice([each for each in COMMANDS.values() if each.cell])
        inputs = self.random.choice(("x=f32[3]", "x", "x=f32[3] y", "x=v", "missing", "x=", "é=f32[]", ""))
        body = self.random.choice((f"y = {self.expression(1)}\ny", self.expression(2), "", "y = (", "return x", "\n\n"))
        if self.random.random() < 0.4:
            inputs, body = self.random.choice(("", "", inputs)), self.looks.body()
        return f"%%{command.name} {inputs}\n{body}\n"

    def damaged(self, line: str) -> str:
        """``line`` with a few characters lost, doubled or put in."""
        letters = list(line)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(letters) + 1)
            how = self.random.random()
            if how < 0.4 and letters:
                del letters[min(at, len(letters) - 1)]
            else:
                letters.insert(at, self.random.choice(NOISE))
        return "".join(letters)
