"""What prints in a program show: its source with a print behind each variable and expression, run by JAX.

A print is a primitive of JAX's that gives its operand back. JAX transforms it with the program: under ``vmap`` it has
the examples' axes, its derivative prints the tangent, the transpose of that the cotangent. The program is staged as a
whole, and its jaxpr evaluated equation by equation, so that prints come in order, each with the iterations that it is
in. A program that looks at numbers in Python cannot be staged: JAX runs it as it stands.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import source_info_util
from jax._src.debugging import debug_effect
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from tests.tools.values.oracle import CUSTOM, Unrolled, _plain

# A function of the program's: the line where its source begins, and what it is called.
Function = tuple[int, str]
# Where a variable (or a leaf of one) or an expression is: the function, the text, and the line of an expression, or
# whether a variable is set or used there.
Site = tuple[Function, str, int]
SET, USED = 0, -1
# Which turn of each of the loops around, outermost first.
Turns = tuple[int, ...]

# What transformations make of a print, the innermost one first: primal, tangent, and what arrives at a tangent.
COLUMNS = {"primal": re.compile("p*"), "tangent": re.compile("p*tp*"), "cotangent": re.compile("t?cp*")}


class Shown:
    """What a print showed: ``value`` has ``axes`` axes of examples in front. Of a loop that examples leave at different
    times, ``active`` are those that are still in it.
    """

    __slots__ = ("value", "axes", "active")

    def __init__(self, value: np.ndarray, axes: int, active: np.ndarray | None) -> None:
        self.value, self.axes, self.active = value, axes, active


class Prints:
    """What the prints of one run of a program showed.

    Attributes:
      sites: the site of each print that was met while the program was traced; a print's number is its place here.
      shown: (number, role) -> for each time that its program ran, what it showed in each turn of the loops around.
      lines: (file, line) -> what the equations gave that JAX says are that line's.
      given: the values that it begins with.
      error: what ended the program.
    """

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.shown: dict[tuple[int, str], list[dict[Turns, Shown]]] = defaultdict(list)
        self.lines: dict[tuple[str, int], list[np.ndarray]] = defaultdict(list)
        self.given: list[np.ndarray] = []
        self.error: Exception | None = None
        self.turns: Turns = ()
        self.active: np.ndarray | None = None

    def __call__(self, function: Function, name: str, line: int, value: Any) -> Any:
        """``value`` with a print of each array in it; a program calls this."""
        if line == USED and not isinstance(value, jax.Array):
            return value
        flat, tree = jax.tree_util.tree_flatten_with_path(value)
        if not any(_is_array(x) for _, x in flat):
            return value
        sites = [(function, name + jax.tree_util.keystr(path), line) for path, _ in flat]
        return tree.unflatten([self._printed(site, x) for site, (_, x) in zip(sites, flat, strict=True)])

    def _printed(self, site: Site, x: Any) -> Any:
        if not _is_array(x):
            return x
        self.sites.append(site)
        return printed_p.bind(x, prints=self, number=len(self.sites) - 1, role="", axes=0)

    def note(self, x: Any, number: int, role: str, axes: int) -> None:
        """A print shows ``x``."""
        runs = self.shown[number, role]
        if not runs or self.turns in runs[-1]:
            runs.append({})
        runs[-1][self.turns] = Shown(_plain(x), axes, self.active)

    def runs(self, number: int, column: str) -> list[dict[Turns, Shown]]:
        """What a print showed of primals, tangents or cotangents."""
        roles = [role for n, role in self.shown if n == number and COLUMNS[column].fullmatch(role)]
        # the tangent is that of the innermost derivative that computes any
        first = min([role.index("t") for role in roles if column == "tangent"], default=0)
        roles = [role for role in roles if column != "tangent" or role.index("t") == first]
        return [run for role in roles for run in self.shown[number, role]]

    def uses(self, number: int) -> list[int]:
        """The prints of the uses of what print ``number`` shows, which a variable is set to."""
        (function, name, _), out = self.sites[number], []
        for later in range(number + 1, len(self.sites)):
            if self.sites[later] == (function, name, USED):
                out.append(later)
            elif self.sites[later] == (function, name, SET):
                break
        return out

    def of_sites(self) -> dict[Site, list[int]]:
        """The prints of each site, in the order in which they were traced."""
        out: dict[Site, list[int]] = defaultdict(list)
        for number, site in enumerate(self.sites):
            out[site].append(number)
        return out


def _is_array(x: Any) -> bool:
    """Whether ``x`` is an array of JAX's, or of NumPy's and neither an index nor a size."""
    return isinstance(x, jax.Array) or isinstance(x, np.ndarray) and x.dtype.kind in "fc" and x.ndim > 0


# --- the primitive
# ---------------------------------------------------------------------------------------------------------

printed_p = Primitive("printed")


@printed_p.def_impl
def _run(x: Any, *, prints: Prints, number: int, role: str, axes: int) -> Any:
    prints.note(x, number, role, axes)
    return x


@printed_p.def_effectful_abstract_eval
def _type(aval: Any, **params: Any) -> Any:
    # a primal's print stays where nothing needs its result; a tangent that nothing needs is not computed
    return aval, {debug_effect} if set(params["role"]) <= {"p"} else set()


def _derivative(primals: Any, tangents: Any, **params: Any) -> Any:
    (x,), (t,) = primals, tangents
    role = params.pop("role")
    out = printed_p.bind(x, role=role + "p", **params)
    return out, t if type(t) is ad.Zero else printed_p.bind(t, role=role + "t", **params)


def _transpose(ct: Any, x: Any, **params: Any) -> Any:
    if type(ct) is ad.Zero:
        return [ct]
    return [printed_p.bind(ct, **(params | {"role": params["role"] + "c"}))]


def _batch(args: Any, dims: Any, **params: Any) -> Any:
    (x,), (dim,) = args, dims
    return printed_p.bind(jnp.moveaxis(x, dim, 0), **(params | {"axes": params["axes"] + 1})), 0


ad.primitive_jvps[printed_p] = _derivative
ad.primitive_transposes[printed_p] = _transpose
batching.primitive_batchers[printed_p] = _batch


# --- running a staged program
# ---------------------------------------------------------------------------------------------------------


class _Evaluation(Unrolled):
    """A jaxpr evaluated equation by equation, with its prints."""

    def __init__(self, prints: Prints, lines: bool) -> None:
        super().__init__(lambda x, differentiated: x)
        self.prints = prints
        self.noting_lines = lines
        self.places: dict[int, tuple[str, int]] = {}

    def equation(self, eqn: Any, args: list[Any]) -> Sequence[Any]:
        if eqn.primitive is printed_p:
            return [_run(*args, **eqn.params)]
        if eqn.primitive.name in CUSTOM:
            return self.run(eqn.params["call_jaxpr"], args)
        outs = super().equation(eqn, args)
        if self.noting_lines:
            self._note_line(eqn, outs)
        return outs

    def _note_line(self, eqn: Any, outs: Sequence[Any]) -> None:
        if id(eqn) not in self.places:
            frame = source_info_util.user_frame(eqn.source_info.traceback)
            self.places[id(eqn)] = (frame.file_name, frame.start_line) if frame is not None else ("", 0)
        self.prints.lines[self.places[id(eqn)]] += map(_plain, outs)

    def scan(self, params: dict[str, Any], args: list[Any]) -> list[Any]:
        n, m, length = params["num_consts"], params["num_carry"], params["length"]
        consts, carry, xs = args[:n], args[n : n + m], args[n + m :]
        rows: dict[int, list[Any]] = {}
        around = self.prints.turns
        for i in reversed(range(length)) if params["reverse"] else range(length):
            self.prints.turns = (*around, i)
            outs = self.run(params["jaxpr"], [*consts, *carry, *[x[i] for x in xs]])
            carry, rows[i] = outs[:m], outs[m:]
        self.prints.turns = around
        return [*carry, *[jnp.stack(each) for each in zip(*[rows[i] for i in range(length)], strict=True)]]

    def loop(self, params: dict[str, Any], args: list[Any]) -> list[Any]:
        n, m = params["cond_nconsts"], params["body_nconsts"]
        carry, turn = args[n + m :], 0
        around, active = self.prints.turns, self.prints.active
        while True:
            self.prints.turns = (*around, turn)
            (going,) = self.run(params["cond_jaxpr"], [*args[:n], *carry])
            if not np.any(going):
                break
            if np.ndim(going):
                self.prints.active = np.asarray(going)
            new = self.run(params["body_jaxpr"], [*args[n : n + m], *carry])
            # of a batched loop, the examples that have ended keep their carry
            carry = [
                jnp.where(jnp.reshape(going, np.shape(going) + (1,) * (np.ndim(a) - np.ndim(going))), a, b)
                for a, b in zip(new, carry, strict=True)
            ]
            turn += 1
        self.prints.turns, self.prints.active = around, active
        return carry


def run(call: Callable[[Prints], Any], lines: bool = False) -> Prints:
    """The prints of a program: ``call`` runs it with the prints that it is given."""
    prints = Prints()
    try:
        staged = jax.make_jaxpr(lambda: call(prints))()
    except Exception:  # it looks at numbers, or fails
        prints = Prints()
        try:
            call(prints)
        except Exception as error:
            prints.error = error
        return prints
    prints.given = [*map(_plain, staged.consts)]
    _Evaluation(prints, lines).run(staged, [])
    return prints


# --- the source
# ---------------------------------------------------------------------------------------------------------


class _Printing(ast.NodeTransformer):
    """Puts prints into a module: ``_printed_((7, "f"), "x", x)``."""

    def __init__(self, source: str) -> None:
        self.source = source
        # what functions are called that are defined here, and the function that statements are in
        self.prefix = ""
        self.function: Function | None = None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        line = min([node.lineno, *[each.lineno for each in node.decorator_list]])
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        with _Inside(self, (line, self.prefix + node.name), ".<locals>."):
            assert self.function is not None
            node.body = [*map(self._print, _arguments(node.args)), *self._body(node.body)]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        with _Inside(self, (node.lineno, self.prefix + "<lambda>"), ".<locals>."):
            body = self.visit(node.body)
            prints: list[ast.expr] = []
            for name in _arguments(node.args):
                prints.append(ast.NamedExpr(ast.Name(name, ast.Store()), self._call(name, ast.Name(name, ast.Load()))))
            node.body = ast.Subscript(ast.Tuple([*prints, body], ast.Load()), ast.Constant(-1), ast.Load())
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        with _Inside(self, None, node.name + "."):
            node.body = self._body(node.body)
        return node

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for each in statements:
            found = self.visit(each)
            out += found if isinstance(found, list) else [found]
        return out

    def visit_Import(self, node: ast.Import) -> Any:
        node.names = [ast.alias(*_of_jax(each.name, each.asname)) for each in node.names]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if (node.module or "").startswith("minijax."):
            return []
        node.module = "jax" if node.module == "minijax" else node.module
        return node

    def visit_arguments(self, node: ast.arguments) -> Any:
        return node

    def _assigned(self, node: Any, *targets: ast.expr) -> Any:
        node = self.generic_visit(node)
        found = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        names = [each.id for each in found if isinstance(each.ctx, ast.Store) and each.id != "_"]
        return [node, *map(self._print, names)] if self.function else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._assigned(node, *node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        return self._assigned(node, node.target)

    def visit_For(self, node: ast.For) -> Any:
        names = [each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)]
        node = self.generic_visit(node)  # type: ignore[assignment]
        if self.function:
            node.body = [*map(self._print, names), *node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        return node

    def _expression(self, node: Any) -> Any:
        if self.function is None or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return self.generic_visit(node)
        text = " ".join((ast.get_source_segment(self.source, node) or "").split())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
            node.args = [self.visit(each) for each in node.args]
            node.keywords = [self.visit(each) for each in node.keywords]
            return self._call(text, node, node.lineno)
        return self._call(text, self.generic_visit(node), node.lineno)

    def visit_Name(self, node: ast.Name) -> Any:
        if self.function is None or not isinstance(node.ctx, ast.Load):
            return node
        return self._call(node.id, node, USED)

    visit_Call = visit_BinOp = visit_UnaryOp = visit_Compare = visit_Subscript = visit_Attribute = _expression

    def _call(self, name: str, value: Any, line: int = SET) -> ast.Call:
        assert self.function is not None
        at = ast.Tuple([ast.Constant(each) for each in self.function], ast.Load())
        return ast.Call(ast.Name("_printed_", ast.Load()), [at, ast.Constant(name), ast.Constant(line), value], [])

    def _print(self, name: str) -> ast.stmt:
        return ast.Assign([ast.Name(name, ast.Store())], self._call(name, ast.Name(name, ast.Load())))


class _Inside:
    """Context manager: statements in the block are in this function or class."""

    def __init__(self, printing: _Printing, function: Function | None, after: str) -> None:
        self.printing, self.function = printing, function
        self.prefix = function[1] + after if function else printing.prefix + after
        self.outer = printing.prefix, printing.function

    def __enter__(self) -> None:
        self.printing.prefix, self.printing.function = self.prefix, self.function

    def __exit__(self, *exc: object) -> None:
        self.printing.prefix, self.printing.function = self.outer


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if each is not None and each.arg not in ("self", "_"):
            yield each.arg


def _of_jax(name: str, asname: str | None) -> tuple[str, str | None]:
    if name.partition(".")[0] != "minijax":
        return name, asname
    return name.replace("minijax", "jax", 1), asname or ("minijax" if name == "minijax" else asname)


def printing(file: str, module: str) -> Callable[[Prints], dict[str, Any]]:
    """``module``, in ``file``, with prints in its functions, for JAX: called with the prints, its names."""
    with open(file) as opened:
        source = opened.read()
    tree = _Printing(source).visit(ast.parse(source))
    code = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)

    def names(prints: Prints) -> dict[str, Any]:
        scope: dict[str, Any] = {"__name__": module, "__file__": file, "_printed_": prints}
        exec(code, scope)
        return scope

    return names
