"""Lines for ``fuzz``: valid and invalid Python and commands, from one grammar and a seed.

Nothing in the grammar loops for long, makes large arrays, leaves the program or touches files outside the current
folder. In a template, ``<word>`` stands for one of the templates of that word.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from minijax.tools.commands.table import COMMANDS
from minijax.tools.session.settings import TABLE
from tests.tools.lines import BAD, GOOD


class Program(NamedTuple):
    """The inputs that define a program, calls of it, and names that its variables have."""

    inputs: tuple[str, ...]
    calls: tuple[str, ...]
    names: tuple[str, ...]


PROGRAMS = (
    Program(("def f(x): return sin(x) * 2. - x",), ("f(3.0)", "grad(f)(x)", "vmap(grad(f))(v)"), ("x",)),
    Program(
        (
            "p = {'w': jnp.ones((3, 2)) * 0.5, 'b': jnp.zeros(2)}",
            "def mlp(p, u):\n    h = jnp.tanh(u @ p['w'] + p['b'])\n    return jnp.sum(h ** 2)\n",
        ),
        ("mlp(p, v)", "jit(grad(mlp))(p, v)", "vmap(grad(mlp), (None, 0))(p, jnp.ones((2, 3)))"),
        ("h", "p", "u", "p['w']"),
    ),
    Program(
        (
            "def body(c, a):\n    new = c * a + 1.\n    return new, sin(new)\n",
            "def roll(c):\n    last, ys = lax.scan(body, c, jnp.arange(3.) + 1.)\n    return ys.sum() + last\n",
        ),
        ("roll(2.)", "jit(grad(roll))(2.)", "vmap(grad(roll))(v)", "linearize(roll, 2.)[1](1.)"),
        ("new", "c", "a", "ys", "last"),
    ),
    Program(
        ("def halve(x):\n    r = lax.while_loop(lambda s: s > 1., lambda s: s / 2., x)\n    return r * 2.\n",),
        ("halve(40.)", "vmap(halve)(jnp.arange(3.) * 10.)", "jvp(halve, (9.,), (1.,))"),
        ("s", "r", "x"),
    ),
    Program(
        ("def pick(x):\n    s = lax.cond(x > 0, sin, cos, x)\n    return s + lax.switch(1, (sin, cos), x)\n",),
        ("pick(1.)", "grad(pick)(-1.)", "vmap(grad(pick))(v)", "jit(pick)(x)"),
        ("s", "x"),
    ),
    Program(
        (
            "@custom_vjp\ndef clip(x): return x * 2.\n",
            "clip.defvjp(lambda x: (clip(x), x), lambda res, ct: (jnp.clip(ct * res, -1., 1.),))",
            "deep = checkpoint(lambda z: sin(clip(z)))",
        ),
        ("clip(3.)", "vmap(grad(clip))(v)", "jit(grad(lambda q: clip(q) ** 2))(0.3)", "vmap(grad(deep))(v)"),
        ("res", "ct", "x", "z"),
    ),
    Program(
        (
            "def twice(x):\n    t = jnp.exp(x * 0.5)\n    return jnp.sum(t * t)\n",
            "def train(w):\n    for i in range(4): w = w - 0.1 * grad(twice)(w)\n    return w\n",
        ),
        ("jvp(grad(twice), (v,), (v,))", "hessian(twice)(v)", "jit(train)(0.5)", "grad(train)(0.5)"),
        ("t", "x", "w", "i"),
    ),
    Program(
        ("def bad_log(x):\n    lo = jnp.log(x - 5.)\n    return jnp.sum(jnp.where(x > 6., lo, 0.))\n",),
        ("bad_log(x)", "grad(bad_log)(v)", "jit(grad(bad_log))(x)"),
        ("lo", "x"),
    ),
    Program(
        (
            "def fails(x):\n    mid = sin(x)\n    return mid + jnp.ones(4)\n",
            "def raises(x): t = x * 2.; raise ValueError(t)",
            "def untraced(x):\n    if x > 0: return sin(x)\n    return float(x)\n",
        ),
        ("vmap(grad(fails))(v)", "jit(fails)(v)", "vmap(jit(raises))(v)", "jit(untraced)(2.)", "grad(untraced)(-2.)"),
        ("mid", "t", "x"),
    ),
    Program(
        (
            "def grüße(größe):\n    λ = sin(größe) * 2.\n    return λ\n",
            "wide = {'日本語🙂': v, 'a\\nb': A, '\\x1b[31m': x, 'long' * 60: [v] * 3}",
            "def noisy(x):\n    y2 = x * 2.\n    debug.print('{} 日', y2)\n    return pure_callback(np.sin, y2, y2)\n",
        ),
        ("grad(grüße)(2.)", "vmap(grüße)(wide['日本語🙂'])", "jit(noisy)(2.)", "vmap(noisy)(v)"),
        ("λ", "größe", "y2"),
    ),
    Program(
        (
            "def library(m):\n    q = jnp.linalg.norm(m)\n    return jnp.sum(jnp.sort(nn.softmax(m.ravel()))) * q\n",
            "import jax as J\ndef theirs(x):\n    k = J.numpy.sin(x) * 2.\n    return k.sum()\n",
        ),
        ("grad(library)(A)", "random.normal(random.PRNGKey(0), (3,))", "J.jit(J.vmap(J.grad(theirs)))(np.ones(2))"),
        ("q", "m", "k", "x"),
    ),
)
CALLS = frozenset(call for program in PROGRAMS for call in program.calls)

# What every session begins with, and is given again now and then: lines may have deleted or changed it.
SETUP = (
    "import numpy as np, minijax.numpy as jnp; from minijax import lax, random, jit, grad, vmap, jvp, vjp",
    "x = 3.0; y = 2; v = jnp.arange(3.0); A = jnp.ones((2, 3)); d = {'a': x, 'b': (v, y)}",
    "def g(x, y=1.0):\n    z = f(x) * y\n    return z + cos(z)\n",
    "sin, cos, exp = jnp.sin, jnp.cos, jnp.exp",
    *(each for program in PROGRAMS for each in program.inputs),
    "%x64 off",
    "%pop --all",
)
# Every fourth line is one of SETUP.
AGAIN = 4
NOISE = (
    "\x00", "\x07", "\x1b[2J", "\x1b]0;title\x07", "\r", "\t", "\u202e", "\ufeff", "🙂", "日本", "é", "\x7f", "\x85",
    "'", '"', '"""', "(", ")", "[", "{", "}", ":", "=", "%", "%%", "?", "\\", "#", ";", "--", "@", "\n", "\n    ", " ",
)  # fmt: skip

# The first template of a word holds no other word of Python: it ends a nesting that is deep enough. ``call`` and
# ``name`` are of one program in a line.
GRAMMAR: dict[str, tuple[str, ...]] = {
    "line": ("<statement>",) * 12 + ("<expression>",) * 6 + ("<look>",) * 54 + ("<command>",) * 14
    + ("<level>",) * 5 + ("<cell>",) * 3 + ("<long>",) + ("<question>",) * 2 + ("<noise>",) * 3,
    "assigned": ("z", "x", "y", "v", "A", "d", "f", "g", "w", "é", "missing", "_", "Out", "dx"),
    "atom": ("x", "v", "0.5", "2.", "v[0]", "d['a']", "jnp.ones(3)", "x * v", "A", "y")
    + ("<odd>",) * 3,
    "odd": ("-1", "1e30", "True", "None", "'text'", "()", "{}", "f32[3]", "jnp.zeros((2, 0))", "1j", "b'x'", "...",
            "jnp.int32(7)", "float('nan')", "random.PRNGKey(0)", "missing", "é", "x.shape", "v.T", "v[::2]", "f"),
    "function": ("f", "g", "sin", "cos", "jnp.sum", "jnp.tanh", "abs", "missing", "lax.sin", "(lambda x: <expression>)",
                 "grad(<function>)", "vmap(<function>)", "jit(<function>)", "checkpoint(<function>)",
                 "value_and_grad(<function>)", "custom_jvp(<function>)"),
    "expression": ("<atom>", "<function>(<atom>)", "<function>(<expression>)", "<atom> <operator> <expression>",
                   "(<expression>)[<expression>]", "jvp(<function>, (<expression>,), (<expression>,))",
                   "vjp(<function>, <expression>)[1](<expression>)", "linearize(<function>, <expression>)",
                   "make_jaxpr(<function>)(<expression>)", "lax.cond(<atom>, <function>, <function>, <atom>)",
                   "lax.fori_loop(0, 3, lambda i, c: <expression>, <expression>)",
                   "lax.scan(lambda c, e: (c, <expression>), <expression>, v)", "[<expression> for i in range(2)]",
                   "<atom> if <atom> else <expression>", "jnp.where(<atom>, <atom>, <expression>)"),
    "operator": ("+", "-", "*", "/", "@", "==", "<", "%", "//", "and", "in", "is", ","),
    "statement": ("<assigned> = <expression>", "<assigned> = <expression>;", "<assigned> += <expression>", "del <odd>",
                  "assert <expression>, 'told'", "print(<expression>)", "def z(x): return <expression>",
                  "def f(x):\n    <assigned> = <expression>\n    return x\n", "for i in range(3): z = <expression>",
                  "try:\n    <expression>\nexcept TypeError as error:\n    z = 1\n", "with <expression>: pass",
                  "raise ValueError(<expression>)", "raise KeyboardInterrupt", "raise RecursionError",
                  "raise BaseException('x')", "class C:\n    def __repr__(self): return <expression>\n\nC()",
                  "def loop(n): return loop(n + 1)\nloop(0)\n", "import missing_module", "# <atom>", "yield <atom>",
                  "leaked = []; jit(lambda x: leaked.append(x) or x)(1.); leaked[0] + 1", "await <atom>"),
    "long": ("'" + "long text " * 2000 + "'", "(" * 300 + "x" + ")" * 300, "%" + "a" * 5000, "x = " + "-" * 3000 + "1",
             " + ".join(["x"] * 2000), "%grad " + "f(" * 120 + "x" + ")" * 120, "[" * 80 + "]" * 80),
    "question": ("?", "??", "f?", "f??", "jnp.sin?", "?x", "%grad?", "missing?", "x.y.z?", "é?"),
    "number": ("0", "1", "2", "7", "-1", "99999999999", "0,1", "x", "", "1.5", "٣"),
    "condition": ("<name> > 1", "nan(<name>)", "<name> became NaN", "<name>.shape changed", "line <number>",
                  "<name> == <name> or not <name> < 1", "<name> >", "open('a') > 1", "<name> ** 9 ** 9 > 1", "3 > 2"),
    "of_moment": ("<name>", "<name>.sum() + 1", "<name>[99]", "1 / 0", "<name> +", "", "exec('1')", "'日本🙂' * 40"),
    "tree": ("p", "wide", "d", "[p, {'a': None}]", "v", "f", "{}", "missing", "{1: p}", "<call>"),
    "leaf": ("['w']", "['b'][0]", "[0]", "['日本語🙂']", "[9]", "x", "[", ".w", "['a\\nb']", ""),
    "look": ("%step <call><retrace><at>", "%step <call>", "%step", "%step <call> --text", "%find <condition> in <call>",
             "%values <call><of><iteration><retrace>", "%values <call><example>", "%origin <call><of><retrace>",
             "%graph <call> --names", "%origin <call>[0] --depth <number>", "%find <condition> --step",
             "%backward <call> --cotangent <atom>", "%backward <call><retrace>", "%backward <call> --most <number>",
             "%tree <tree> --leaf <leaf>", "%tree <tree> --depth <number> --exact", "%jaxpr <call> --names --source",
             "%diff <call> --by grad", "%diff <call> --with <call> --names", "%nan <call> --grad", "%why <call>",
             "%log <call> --verbose", "%hlo <call> --links --line 2", "%hlo <call> --partitioned", "%keys <call>",
             "%passes <call> --open", "%time <call> --alone --lines", "%roofline <call>", "%shards <tree>",
             "<call>", "<call>", "%debug", "%leaks", "%tour<tour>", "%grad <call>", "<table>", "<table>", "<table>"),
    "of": ("", " --of <name>"),
    "iteration": ("", " --iteration <number>"),
    "example": ("", " --example <number>"),
    "retrace": ("", "", " --retrace"),
    "at": ("", "", " --at error", " --at 3", " --at sin", " --at line 2"),
    "tour": ("", " next", " back", " stop", " stop", " 2.1", " ex 3", " check", " hint", " solution --use", " edit"),
    "level": ("%pop", "%push jvp z=<atom> dz=1.", "%push vmap v=<atom>", "%push jaxpr x=f32[3]", "%push grad z=<atom>",
              "%push linearize z=<atom>", "%push jit z=f32[]", "%push nothing", "%push vmap v --axis 1",
              "%pop <expression>", "%pop z", "%pop --all", "%stack", "%tracers"),
    "cell": ("%%jaxpr x=f32[3]\ny = sin(x)\ny\n", "%%<cell_name> <inputs>\n<expression>\n",
             "%%<cell_name>\nout = <call>\nout\n", "%%<cell_name> <inputs>\nreturn x\n", "%%<cell_name>\ny = (\n"),
    "cell_name": tuple(each.name for each in COMMANDS.values() if each.cell),
    "inputs": ("x=f32[3]", "x", "x=v", "missing", "x=", "é=f32[]", ""),
    "noise": tuple(f"{first}<noise_end>" for first in NOISE),
    "noise_end": ("", "x<noise>", "jnp<noise>", "<noise>"),
    # %gallery, %tour, %time and %compare take long, and %run runs other lines
    "table": tuple(
        line for line, _ in (*GOOD, *BAD) if not line.startswith(("%tour", "%time", "%compare", "%gallery", "%run"))
    ),
}  # fmt: skip
WORD = re.compile(r"<(\w+)>")
DEEPEST = 4


class Lines:
    """An endless source of lines; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def line(self) -> str:
        self.count += 1
        if self.count % AGAIN == 0:
            return SETUP[self.count // AGAIN % len(SETUP)]
        line = self.one("line")
        return self.damaged(line) if self.random.random() < 0.12 else line

    def one(self, word: str) -> str:
        """One of the texts of a word of the grammar."""
        return self._text(word, self.random.choice(PROGRAMS), 0)

    def _text(self, word: str, program: Program, depth: int) -> str:
        if word == "call":
            return self.random.choice(program.calls)
        if word == "name":
            known = self.random.random() < 0.8
            return self.random.choice(program.names if known else ("nothing", "é", "x.y", "1", "", "'h'", "[", "日本"))
        if word == "command":
            return self.command(program)
        templates = GRAMMAR[word]
        template = templates[0] if depth > DEEPEST else self.random.choice(templates)
        if word == "table":
            return template
        return WORD.sub(lambda found: self._text(found[1], program, depth + 1), template)

    def command(self, program: Program) -> str:
        """A command with options: right, wrong, missing, twice, unknown."""
        pick = self.random.choice
        command = pick([each for each in COMMANDS.values() if each.name not in ("tour", "run", "sh")])
        words = [("%" if command.line else "%%") + command.name]
        if command.name == "config":
            words += [pick((*TABLE, "colour")), pick(("on", "off", "5", "nothing", ""))]
        else:
            words.append(self._text(pick(("call", "call", "expression", "odd")), program, 1))
        for param in command.params:
            if param.kind != "text" and self.random.random() < 0.3:
                value = "" if param.kind == "flag" else pick((*param.choices, "<number>", "<odd>"))
                words += [param.option, WORD.sub(lambda found: self.one(found[1]), value)]
        words.append(pick(("", "", "", ";", "--nothing", "--")))
        return " ".join(filter(None, words))

    def damaged(self, line: str) -> str:
        """``line`` with a few characters lost or put in."""
        letters = list(line)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(letters) + 1)
            if self.random.random() < 0.4 and letters:
                del letters[min(at, len(letters) - 1)]
            else:
                letters.insert(at, self.random.choice(NOISE))
        return "".join(letters)
