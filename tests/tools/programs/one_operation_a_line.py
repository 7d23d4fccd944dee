"""Programs with one operation a line, and which of their lines an instruction of XLA's can belong to.

That is found from shapes, opcodes and constants alone. A program has several chains of operations. Each chain works on
arrays whose sizes are prime numbers that no other chain has. Each operation and each constant is on one line only.
"""

import random
import re

import numpy as np

import minijax
import minijax.numpy as jnp
from minijax import lax

# an operation -> the opcodes that only it and its derivatives become; {c} is a constant of this line alone
OPERATIONS = {
    "jnp.sin({x})": "sine cosine",
    "jnp.tanh({x})": "tanh",
    "jnp.exp({x})": "",
    "jnp.log({x})": "log",
    "jnp.sqrt({x})": "sqrt rsqrt",
    "jnp.arctan2({x}, {c})": "atan2",
    "lax.logistic({x})": "logistic",
    "jnp.abs({x})": "abs sign",
    "lax.expm1({x})": "exponential-minus-one",
    "lax.rev({x}, (0,))": "reverse",
    "{x} * {c}": "",
    "{x} + {c}": "",
    "{x} - {c}": "",
    "{c} / {x}": "",
    "jnp.maximum({x}, {c})": "maximum",
    "jnp.minimum({x}, {c})": "minimum",
    "{x} @ {w}": "dot",
    "lax.cumsum({x})": "",
}
SIZES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
WAYS = ("forward", "grad", "vmap", "scan", "cond", "vmap of grad")
# Opcodes that the test asks nothing of: they do no work, or XLA added them.
NO_WORK = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy")
HOLDING = ("fusion", "call", "while", "conditional")
ROUNDS = 4


class Program:
    """A random program. ``lines``: number -> the sizes of the line's arrays, its own opcodes, its constant; ``around``:
    the lines of the scan or cond."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.way = WAYS[seed % len(WAYS)]
        self.file = f"<program {seed}>"
        sizes = self.random.sample(SIZES, len(SIZES))
        chains = {name: [sizes.pop(), f"{name}0"] for name in "xyz"[: self.random.randint(2, 3)]}
        inputs = ", ".join(f"{name}0" for name in chains)
        self.args = [np.linspace(0.3, 0.9, size, dtype=np.float32) for size, _ in chains.values()]
        operations = self.random.sample(sorted(OPERATIONS), self.random.randint(3, 8))
        self.text, self.lines = [f"def body({inputs}, w):"], {}
        w = np.zeros((0, 0), np.float32)
        for number, operation in enumerate(operations, 1):
            name = self.random.choice(sorted(chains))
            size, at = chains[name]
            c = round(1.17 + 0.31 * number, 2)
            used = {size}
            if "{w}" in operation:
                w = np.linspace(0.1, 0.2, size * sizes[0], dtype=np.float32).reshape(size, sizes[0])
                chains[name][0] = sizes.pop(0)
                used.add(chains[name][0])
            chains[name][1] = f"{name}{number}"
            self._line(f"    {name}{number} = {operation.format(x=at, c=c, w='w')}", used, operation, c)
        total = ""
        for name, (size, at) in chains.items():
            self._line(f"    {name}s = jnp.sum({at})", {size}, "", None)
            if total:
                self._line(f"    {name}t = {total} + {name}s", (), "", None)
            total = f"{name}t" if total else f"{name}s"
        self.text += [f"    return {total}", f"def f({inputs}, w):"]
        self.args.append(w)
        self.around = {len(self.text) + 1}
        if self.way == "scan":
            self.args[:-1] = [np.stack([x] * ROUNDS) for x in self.args[:-1]]
            self.text.append(f"    return lax.scan(lambda c, a: (c + body(*a, w), None), 0.0, ({inputs}))[0]")
        elif self.way == "cond":
            self.text.append(f"    return lax.cond(x0[0] > 0.123, body, lambda *a: 0.0, {inputs}, w)")
        else:
            self.text.append(f"    return body({inputs}, w)")

    def _line(self, text, sizes, operation, constant):
        self.text.append(text)
        opcodes = OPERATIONS.get(operation, "").split()
        self.lines[len(self.text)] = sizes, opcodes, constant if "{c}" in operation else None

    def lowered(self):
        names = {"jnp": jnp, "lax": lax}
        exec(compile("\n".join(self.text), self.file, "exec"), names)
        fun, args, count = names["f"], self.args, len(self.args) - 1
        if "grad" in self.way:
            fun = minijax.grad(fun, argnums=tuple(range(count)))
        if "vmap" in self.way:
            fun = minijax.vmap(fun, (*[0] * count, None))
            args = [*(np.stack([x] * 8) for x in args[:-1]), args[-1]]
        return minijax.jit(fun).lower(*args)

    def possible(self, text):
        """name of an instruction that works -> the lines that it can belong to, and whether only one can."""
        found, kinds, members, constants, rows = {}, {}, {}, {}, []
        computation = ""
        for line in text.split("\n"):
            begins = re.match(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$", line)
            computation = begins[1] if begins else computation
            row = re.match(r"\s+(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*?)\)", line)
            if row:
                name, kind, opcode, operands = row.groups()
                kinds[computation, name] = kind
                operands = re.findall(r"%([\w.-]+)", operands)
                if opcode == "constant" and re.match(r"f32\[\]", kind):
                    constants[computation, name] = float(row[4])
                elif opcode == "broadcast" and (computation, operands[0]) in constants:
                    constants[computation, name] = constants[computation, operands[0]]
                    opcode = "constant"
                called = re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", line) if opcode in HOLDING else []
                members.setdefault(computation, []).append(name)
                rows.append((computation, name, opcode, operands, called))
        for computation, name, opcode, operands, called in rows:
            if opcode in ("while", "conditional"):
                found[name] = self.around
            elif called:
                inside = [found[one] for each in called for one in members.get(each, ()) if one in found]
                found[name] = set().union(*inside)
            elif opcode not in NO_WORK:
                every = [kinds[computation, each] for each in (name, *operands) if (computation, each) in kinds]
                sizes = {
                    int(size) for kind in every for size in re.findall(r"\d+", "".join(re.findall(r"\[.*?\]", kind)))
                }
                values = [constants[computation, each] for each in operands if (computation, each) in constants]
                found[name] = self._possible(opcode, sizes & {*SIZES}, values)
        return found

    def _possible(self, opcode, sizes, values):
        fitting = {number for number, (own, _, _) in self.lines.items() if sizes <= {*own}}
        certain = set()
        for number in fitting:
            _, opcodes, constant = self.lines[number]
            # a derivative's product with a constant belongs to the line of the constant, or of the derivative
            merged = opcode in ("multiply", "divide") and "grad" in self.way
            either = () if constant is None or merged else (constant, 1 / constant)
            # XLA merges a negation into a product
            values = [abs(v) for v in values if v > 0 or opcode != "multiply"]
            alike = any(np.isclose(v, one, rtol=1e-5) for v in values for one in either)
            if opcode in opcodes or alike:
                certain.add(number)
        return certain or (fitting if sizes else {*self.lines}) | self.around
