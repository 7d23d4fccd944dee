"""What happened, by a mechanism of its own: a program is rewritten so that it logs each value, and run in JAX.

Every store to a name, and every expression that computes something, becomes a call of a ``Log``. The program runs with
``jax_disable_jit``: loops and branches of lax are then loops and branches of Python, and values are arrays. For
derivatives JAX's own ``vjp`` is taken by a zero that is added to each value, so that the cotangent of each value is one
of the gradients; tangents are read off the tracers of JAX's ``jvp``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.USub: operator.neg, ast.Gt: operator.gt,
    ast.Lt: operator.lt, ast.GtE: operator.ge, ast.LtE: operator.le, ast.Eq: operator.eq,
}  # fmt: skip
LOG = "log__"


@dataclass
class Value:
    """An array that the program computed.

    ``number`` counts them; ``moment`` is when it was made, on the clock of ``Seen``. ``primal``, ``tangent`` and
    ``cotangent`` are NumPy arrays, or None where there is none or it was not asked for. ``operands`` are the values
    that the expression at ``line`` computed it from. ``loops`` are the loops of lax around it: function and iteration.
    """

    number: int
    moment: int
    line: int
    function: str
    primal: np.ndarray
    batched: bool
    loops: tuple[tuple[str, int], ...]
    operands: tuple[int, ...] = ()
    text: str = ""
    tangent: np.ndarray | None = None
    cotangent: np.ndarray | None = None
    tap: int | None = None


@dataclass
class Seen:
    """A value was called ``name``: it was stored there, or it is the value of that expression, or of that path."""

    moment: int
    name: str
    function: str
    line: int
    value: Value
    stored: bool
    loops: tuple[tuple[str, int], ...]


class Rewriter(ast.NodeTransformer):
    """Rewrites a program so that it logs."""

    def __init__(self, source: str) -> None:
        self.source, self.functions, self.nodes = source, ["<module>"], []

    def rewritten(self) -> Any:
        tree = self.visit(ast.parse(self.source))
        return compile(ast.fix_missing_locations(tree), "<log>", "exec")

    def note(self, node: ast.AST, untapped: bool = False) -> ast.Constant:
        """The number of what is known of a node: line, function, text."""
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        line = getattr(node, "lineno", 0)
        self.nodes.append((line, self.functions[-1], text, getattr(node, "end_lineno", line)))
        return ast.Constant(len(self.nodes) - 1)

    def called(self, method: str, *args: ast.expr) -> ast.Call:
        return ast.Call(ast.Attribute(ast.Name(LOG, ast.Load()), method, ast.Load()), list(args), [])

    def store(self, name: str, node: ast.AST, method: str = "store") -> ast.stmt:
        """``name = log__.store(node, 'name', name)``."""
        value = self.called(method, self.note(node), ast.Constant(name), ast.Name(name, ast.Load()))
        return ast.Assign([ast.Name(name, ast.Store())], value)

    def parameters(self, args: ast.arguments) -> list[str]:
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        return [arg.arg for arg in every if arg is not None and arg.arg != "self"]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.functions.append(node.name)
        entered = ast.Expr(self.called("enter", ast.Constant(node.name)))
        stores = [self.store(name, node, "parameter") for name in self.parameters(node.args)]
        node.body = [entered, *stores, *(each for stmt in node.body for each in self.statements(stmt))]
        self.functions.pop()
        return node

    def statements(self, node: ast.stmt) -> Iterable[ast.stmt]:
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """``lambda a: (lambda a: body)(*log__.parameters(...))``, so that a parameter gets its tap."""
        self.functions.append("<lambda>")
        names = self.parameters(node.args)
        noted = self.note(node)
        body = self.visit(node.body)
        self.functions.pop()
        pairs = [ast.Tuple([ast.Constant(n), ast.Name(n, ast.Load())], ast.Load()) for n in names]
        inner = ast.Lambda(ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, []), body)
        logged = self.called("parameters", noted, *pairs)
        return ast.Lambda(node.args, ast.Call(inner, [ast.Starred(logged, ast.Load())], []))

    def stored(self, target: ast.expr) -> Iterable[str]:
        return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]

    def visit_Assign(self, node: ast.Assign) -> Any:
        names = [name for target in node.targets for name in self.stored(target)]
        node.value = self.visit(node.value)
        return [node, *(self.store(name, node) for name in names)]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.copy_location(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), node)
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_For(self, node: ast.For) -> ast.AST:
        stores = [self.store(name, node) for name in self.stored(node.target)]
        node.iter = self.visit(node.iter)
        node.body = stores + [each for stmt in node.body for each in self.statements(stmt)]
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        noted = self.note(node)
        node.value = self.called("store", noted, ast.Constant(node.target.id), self.visit(node.value))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """The names of a comprehension are logged by a condition that always holds."""
        node.iter = self.visit(node.iter)
        noted = self.note(node.iter)
        for name in self.stored(node.target):
            node.ifs.insert(0, self.called("true", noted, ast.Constant(name), ast.Name(name, ast.Load())))
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        noted = self.note(node)
        return self.called(
            "operation", noted, ast.Constant(type(node.op).__name__), self.visit(node.left), self.visit(node.right)
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if type(node.op) not in OPERATORS or isinstance(node.operand, ast.Constant):
            return node
        return self.called("operation", self.note(node), ast.Constant(type(node.op).__name__), self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) != 1 or type(node.ops[0]) not in OPERATORS:
            return self.generic_visit(node)
        kind = ast.Constant(type(node.ops[0]).__name__)
        return self.called("operation", self.note(node), kind, self.visit(node.left), self.visit(node.comparators[0]))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return node
        return self.called("item", self.note(node), self.visit(node.value), node.slice)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        noted = self.note(node)
        function = node.func
        if isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name) and function.value.id in MODULES
        ):
            bound = [self.visit(function.value), ast.Constant(function.attr)]
            call = self.called("method", noted, *bound, *map(self.visit, node.args))
        else:
            call = self.called("call", noted, self.visit(function), *map(self.visit, node.args))
        call.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        return call

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.generic_visit(node)

    def visit_Import(self, node: Any) -> Any:
        return ast.Pass()

    visit_ImportFrom = visit_Import


MODULES = ("jnp", "jax", "lax", "random", "soft", "np")
TRACED = (lax.scan, lax.fori_loop, lax.while_loop, lax.cond, lax.switch, lax.map)
COUNTED = (lax.scan, lax.fori_loop, lax.while_loop, lax.map)


def is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray))


class Log:
    """One run of a rewritten program."""

    def __init__(self, nodes: Sequence[tuple[int, str, str, int]], taps: Sequence[Any] | None = None) -> None:
        self.nodes, self.taps = nodes, taps
        self.values: list[Value] = []
        self.seen: list[Seen] = []
        self.shapes: list[tuple[Any, Any]] = []  # of what was tapped
        self._kept: dict[int, tuple[Any, Value]] = {}
        self._clock = 0
        self._loops: list[tuple[str, int]] = []
        self._fresh = False
        self.untapped = 0

    # Values

    def number_of(self, value: Any) -> Value | None:
        found = self._kept.get(id(value))
        return None if found is None else found[1]

    def _now(self) -> int:
        self._clock += 1
        return self._clock

    def _new(self, value: Any, node: int, operands: Sequence[Any] = ()) -> Any:
        """``value``, with a tap, as a value that was made now."""
        line, function, text, _ = self.nodes[node]
        tap = None
        if unwrapped(value)[0] is None:
            return value
        if jnp.issubdtype(value.dtype, jnp.inexact) and not self.untapped:
            tap = len(self.shapes)
            self.shapes.append((value.shape, value.dtype))
            if self.taps is not None:
                value = value + self.taps[tap]
        found = [self.number_of(each) for each in jax.tree.leaves(operands)]
        primal, tangent, batched = unwrapped(value)
        made = Value(
            len(self.values), self._now(), line, function, primal, batched, tuple(self._loops),
            tuple(each.number for each in found if each is not None), text, tangent, tap=tap,
        )  # fmt: skip
        self.values.append(made)
        self._kept[id(value)] = value, made
        return value

    def _known(self, value: Any, node: int, operands: Sequence[Any] = (), fresh: bool = False) -> Any:
        """Container or array, all of whose arrays are values."""

        def leaf(each: Any) -> Any:
            if not is_array(each) or (id(each) in self._kept and not fresh):
                return each
            return self._new(each, node, operands)

        return mapped(leaf, value)

    def _see(self, value: Any, node: int, name: str, stored: bool) -> None:
        line, function, _, _ = self.nodes[node]
        if not is_tree(value):
            return
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            found = self.number_of(leaf)
            if found is not None:
                full = name + jax.tree_util.keystr(path)
                self.seen.append(Seen(self._now(), full, function, line, found, stored, tuple(self._loops)))

    # What the program calls

    def enter(self, name: str) -> None:
        self._fresh, self._entered = False, self._fresh

    def parameter(self, node: int, name: str, value: Any) -> Any:
        value = self._known(value, node, fresh=self._entered)
        self._see(value, node, name, True)
        return value

    def parameters(self, node: int, *pairs: tuple[str, Any]) -> list[Any]:
        self.enter("<lambda>")
        return [self.parameter(node, name, value) for name, value in pairs]

    def store(self, node: int, name: str, value: Any) -> Any:
        value = self._known(value, node)
        self._see(value, node, name, True)
        return value

    def true(self, node: int, name: str, value: Any) -> bool:
        self.store(node, name, value)
        return True

    def computed(self, node: int, value: Any, operands: Sequence[Any], fresh: bool = False) -> Any:
        value = self._known(value, node, operands, fresh)
        self._see(value, node, self.nodes[node][2], False)
        return value

    def operation(self, node: int, kind: str, *operands: Any) -> Any:
        return self.computed(node, OPERATORS[getattr(ast, kind)](*operands), operands)

    def item(self, node: int, value: Any, index: Any) -> Any:
        return self.computed(node, value[index], (value,))

    def method(self, node: int, bound: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if not is_array(bound):
            return self.call(node, getattr(bound, name), *args, **kwargs)
        return self.computed(node, getattr(bound, name)(*args, **kwargs), (bound, args, kwargs))

    def call(self, node: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        own = getattr(function, "__name__", "")
        custom = isinstance(function, (jax.custom_jvp, jax.custom_vjp))
        jitted = hasattr(function, "lower")
        if own in ("vmap", "grad", "jit", "jvp", "vjp", "value_and_grad"):
            return function(*(self._marked(each) if callable(each) else each for each in args), **kwargs)
        if function in TRACED:
            args = tuple(self._marked(each, function in COUNTED) if inspect.isfunction(each) else each for each in args)
        self._fresh = custom or jitted
        self.untapped += custom
        try:
            result = function(*args, **kwargs)
        finally:
            self.untapped -= custom
            self._fresh = False
        fresh = custom or jitted or function in TRACED or hasattr(function, "__wrapped__")
        return self.computed(node, result, (args, kwargs), fresh)

    def _marked(self, function: Callable[..., Any], counted: bool = False) -> Callable[..., Any]:
        """``function``, whose parameters are new values, and whose iteration is counted."""
        count = -1

        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if counted:
                self._loops.append((function.__name__, count))
                args, kwargs = jax.tree.map(arrays, (args, kwargs))
            self._fresh = True
            try:
                return function(*args, **kwargs)
            finally:
                if counted:
                    self._loops.pop()

        return marked


def arrays(value: Any) -> Any:
    """The counter of a loop is an array, although JAX counts with Python's numbers when it does not trace."""
    return jnp.asarray(value) if type(value) is int else value


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of each leaf of containers; ``jax.tree.map`` would sort the keys of dicts."""
    if isinstance(value, dict):
        return {key: mapped(function, each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(function, each) for each in value)
    return function(value)


def is_tree(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray, tuple, list, dict))


def unwrapped(value: Any) -> tuple[np.ndarray | None, np.ndarray | None, bool]:
    """Primal and tangent as arrays, and whether their first axis is that of a vmap."""
    primal, tangent, batched = value, None, False
    while isinstance(primal, jax.core.Tracer):
        kind = type(primal).__name__
        if kind == "BatchTracer":
            batched = batched or primal.batch_dim is not None
            primal = primal.val if primal.batch_dim is None else jnp.moveaxis(primal.val, primal.batch_dim, 0)
        elif kind == "JVPTracer":
            tangent, primal = primal.tangent, primal.primal
        elif kind == "LinearizeTracer":
            primal = primal.primal
        else:
            return None, None, False  # a tangent that JAX's linearize only traces
    if isinstance(tangent, jax.core.Tracer) or type(tangent).__name__ == "Zero":
        tangent = None
    return np.asarray(primal), None if tangent is None else np.asarray(tangent), batched


@dataclass
class Run:
    """A finished run: the result, the gradient if one was asked for, and the log."""

    result: Any
    log: Log
    gradient: Any = None

    @property
    def gradients_first(self) -> Any:
        """The gradient by the first argument."""
        return self.gradient[0]


NAMESPACE: dict[str, Any] = {
    "jax": jax, "jnp": jnp, "lax": lax, "np": np, "random": jax.random, "jit": jax.jit, "grad": jax.grad,
    "vmap": jax.vmap, "jvp": jax.jvp, "vjp": jax.vjp, "value_and_grad": jax.value_and_grad,
    "custom_jvp": jax.custom_jvp, "custom_vjp": jax.custom_vjp, "checkpoint": lambda f: f,
}  # fmt: skip


class Reference:
    """A program in JAX. ``run(kind)`` runs its call: '' as it is, 'jit', 'grad' backward, 'jvp' forward."""

    def __init__(self, source: str, call: str, x64: bool) -> None:
        rewriter = Rewriter(source)
        self.code, self.nodes, self.x64 = rewriter.rewritten(), rewriter.nodes, x64
        function, given = call.split("(", 1)
        self.function, self.given = function, given[:-1]

    def _bound(self, log: Log) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        names = {**NAMESPACE, LOG: log}
        exec(self.code, names)
        log.values.clear(), log.seen.clear(), log._kept.clear(), log.shapes.clear()
        args, kwargs = eval(f"(lambda *a, **k: (a, k))({self.given})", names)
        return names[self.function], args, kwargs

    @functools.lru_cache(8)  # noqa: B019
    def run(self, kind: str = "") -> Run:
        with jax.enable_x64(self.x64), jax.disable_jit():
            plain = Log(self.nodes)
            f, args, kwargs = self._bound(plain)
            if kind == "jvp":
                result, _ = jax.jvp(lambda *args: f(*args, **kwargs), args, jax.tree.map(jnp.ones_like, args))
                return Run(result, plain)
            if kind == "jit":  # the arguments of a jitted function are flattened: dicts are in the order of their keys
                args, kwargs = jax.tree.map(lambda leaf: leaf, (args, kwargs))
            result = f(*args, **kwargs)
            if kind != "grad":
                return Run(result, plain)
            return self._backward()

    def _backward(self) -> Run:
        counted = Log(self.nodes)
        f, args, kwargs = self._bound(counted)
        jax.vjp(lambda a: f(*a, **kwargs), args)
        zeros = [jnp.zeros(shape, dtype) for shape, dtype in counted.shapes]
        log = Log(self.nodes)
        f, args, kwargs = self._bound(log)

        def tapped(args: Any, taps: Any) -> Any:
            log.taps = taps
            return f(*args, **kwargs)

        result, pull = jax.vjp(tapped, args, zeros)
        made = len(log.values)
        log.untapped = 1
        gradients, taps = pull(jnp.ones_like(result))
        for value in log.values[:made]:
            if value.tap is not None:
                value.cotangent = np.asarray(taps[value.tap])
        return Run(result, log, gradients)
