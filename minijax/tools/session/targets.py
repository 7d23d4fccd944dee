"""A command's target: a function and its arguments, read from an expression or a cell.

``f(x, y)`` gives f and its evaluated arguments. Any other expression, such as ``sin(x) * y``, is a function of the
variables in it that hold arrays or numbers. A cell is a function of the inputs that its first line names.
``f32[3]`` means an array of that type unless the user has a variable of that name.

A call such as ``lax.scan(step, 1.0, xs, length=4)`` has arguments that no transformation accepts. Of its
arguments, arrays and floats stay arguments. Functions, trip counts, flags and texts become part of the function.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
from collections.abc import Callable, Collection, Sequence
from types import CodeType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.api import jit, make_jaxpr
from minijax.api.compile import JitFunction
from minijax.core.array import Array, is_array_like
from minijax.core.records import Frozen
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.trace import Tracer
from minijax.interop.uses import is_jax_array
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.pytree import keystr, tree_flatten_with_path, tree_leaves
from minijax.tools.documents.words import short_path, shortened
from minijax.tools.session import real_jax, static
from minijax.tools.session.source import parse_expression
from minijax.tools.session.specs import SPECS, expression_text, spec
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


# The modules that define the type of ``x.at[0]``, whose methods are functions of ``x``.
_INDEXED = ("minijax.numpy", "jax._src.numpy")


class Target(Frozen):
    """A function with arguments. ``names`` are the names of the arguments. ``loose``: the arguments are the variables
    of an expression, not the arguments of a call.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]
    title: str
    loose: bool = False

    def call(self) -> Any:
        """Call the function with the arguments."""
        return self.fun(*self.args, **self.kwargs)

    @property
    def abstract(self) -> bool:
        """Whether an argument is only a type."""
        leaves = tree_leaves((self.args, self.kwargs))
        return any(isinstance(x, ShapeDtypeStruct) for x in leaves)

    def concrete(self, command: str) -> Target:
        """This target if all arguments are values; UsageError if one is only a type."""
        if self.abstract:
            raise UsageError(f"%{command} needs values to run with: {self.title} has an argument that is only a type")
        return self


def jitted(target: Target) -> Any:
    """The target's function, jitted; a function that is already jitted is returned as it is."""
    return target.fun if isinstance(target.fun, JitFunction) else jit(target.fun)


def _capture(fun: Any, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return fun, args, kwargs


def captured(session: Session, node: ast.Call) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The evaluated function and arguments of a call. The call itself does not run."""
    name = "capture call"  # no identifier, so no variable can have this name
    capturing = ast.Call(ast.Name(name, ast.Load()), [node.func, *node.args], node.keywords)
    return session.evaluate(capturing, {name: _capture})  # type: ignore[no-any-return]


def is_value(x: Any) -> bool:
    """Whether an expression takes a variable with the value ``x`` as input: arrays, numbers and containers of them."""
    if isinstance(x, (Array, Tracer, np.ndarray, np.generic, int, float, complex, ShapeDtypeStruct)):
        return not isinstance(x, type) and not (isinstance(x, np.ndarray) and x.dtype == object)
    if type(x) in (list, tuple, dict) and x:
        leaves = leaves_of(x)
        return leaves is not None and bool(leaves) and all(is_array_like(leaf) or is_jax_array(leaf) for leaf in leaves)
    return is_jax_array(x)


def leaves_of(x: Any) -> list[Any] | None:
    """The leaves of a tree, or None if ``x`` is not a tree: a container that contains itself, or a dictionary whose
    keys cannot be sorted (such as ``__warningregistry__``, which Python adds to a namespace after a warning)."""
    try:
        return tree_leaves(x)
    except Exception:  # RecursionError, or an error of user code that compares keys or flattens objects
        return None


def from_expression(session: Session, command: str, text: str, everything: bool = False) -> Target:
    """Parse ``text`` into a function and its arguments.

    Args:
      everything: include the computation of the called function: ``linearize(f, x)[1]`` in ``linearize(f, x)[1](t)``.

    Raises:
      UsageError: ``text`` is no expression, or calls an object that is not callable. Exceptions of the
        user's code propagate.
    """
    text = expression_text(text)
    node = computation(session, command, text)
    if isinstance(node, ast.Call) and not (everything and _is_picked(node.func)):
        found = _from_call(session, command, node, text)
        if found is not None:
            return found
    return _from_variables(session, command, node, text)


def _is_picked(node: ast.expr) -> bool:
    """Whether a call's function is an item of another call's result: ``vjp(f, x)[1]``."""
    return isinstance(node, ast.Subscript) and any(isinstance(each, ast.Call) for each in ast.walk(node.value))


def computation(session: Session, command: str, text: str) -> ast.expr:
    """Parse an expression without running it; UsageError if it clearly computes nothing."""
    node = parse_expression(command, text, "an expression such as f(x)")
    refuse_local(session, command, text)
    _refuse_function(session, node)
    _refuse_no_array(session, command, node)
    return node


def refuse_local(session: Session, command: str, text: str) -> None:
    """Raise UsageError for a name that only a recording knows: a local variable of a recorded function."""
    calls = [node.func for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Call)]
    called = {each.id for each in calls if isinstance(each, ast.Name)}
    for name in free_names(text):
        # a name of the prompt counts as JAX's function only if it is called: otherwise it may be a local variable
        if session.has(name) and (name in called or not session.is_given(name)):
            continue
        if hasattr(builtins, name) or name in SPECS:
            continue
        if source := session.held_in(name):
            asks = command if command in _OF else "values"
            problem = f"{name} is a variable inside {shortened(source)}, which was recorded before, not one of yours"
            raise UsageError(f"%{command}: {problem}: %{session.command_name(asks)} {source} --of {name}")


# Commands that accept a variable inside a call (``--of``).
_OF = ("values", "origin", "graph")
_NO_ARRAYS = {str: "a text", bytes: "bytes", type(None): "None", GeneratorType: "a generator"}


def _refuse_no_array(session: Session, command: str, node: ast.expr) -> None:
    """Raise UsageError for a text, None and similar values, written out or in a variable: they compute nothing."""
    kind: type = type(None)
    if isinstance(node, ast.GeneratorExp):
        kind = GeneratorType
    elif isinstance(node, (ast.Constant, ast.JoinedStr)):
        kind = type(node.value) if isinstance(node, ast.Constant) else str
    elif isinstance(node, ast.Name) and session.has(node.id):
        kind = type(session.lookup(node.id))
    else:
        return
    if kind in _NO_ARRAYS:
        title = shortened(ast.unparse(node))
        is_kind = "" if title == "None" else f" is {_NO_ARRAYS[kind]}, and"
        raise UsageError(f"%{command}: {title}{is_kind} computes nothing: write a call such as f(3.0)")


def _refuse_function(session: Session, node: ast.expr) -> None:
    """Raise UsageError for a function without a call: ``f``, ``jnp.sin``, ``lambda x: x``."""
    is_path = isinstance(node, (ast.Name, ast.Attribute))
    if isinstance(node, ast.Lambda) or (is_path and _is_function(session, node)):
        title = ast.unparse(node)
        call = f"({title})" if isinstance(node, ast.Lambda) else title
        raise UsageError(f"{title} is a function: give it arguments, as in {call}(3.0) or {call}(f32[3])")


def _is_function(session: Session, node: ast.expr) -> bool:
    """Whether a name or a dotted path leads to a callable. Runs no code."""
    if isinstance(node, ast.Name):
        return callable(session.lookup(node.id) if session.has(node.id) else getattr(builtins, node.id, None))
    path = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    found = session.lookup(node.id) if isinstance(node, ast.Name) else None
    for name in reversed(path):
        found = None if found is static.UNKNOWN else static.static_value(found, name)
    return found is not static.UNKNOWN and callable(found)


def _from_call(session: Session, command: str, node: ast.Call, text: str) -> Target | None:
    fun, args, kwargs = captured(session, node)
    if not callable(fun):
        what = f"{ast.unparse(node.func)} is of type {type(fun).__name__}, which cannot be called"
        raise UsageError(f"{what}: %{command} takes a call of a function")
    # x.sum() and x.at[0].set(y) compute with x too, so their inputs are the expression's variables
    owner = getattr(fun, "__self__", None)
    if isinstance(owner, (Array, Tracer)) or type(owner).__module__.startswith(_INDEXED) or is_jax_array(owner):
        return None
    names = argument_names(fun, len(args))
    if len(node.args) == len(args):  # no ``*``: an unnamed argument gets the name of its variable
        pairs = list(zip(names, node.args, strict=True))
        names = tuple(a.id if " " in name and isinstance(a, ast.Name) else name for name, a in pairs)
    title = text.strip()
    fun, args, kwargs = session.watchable(command, title, fun, tuple(args), kwargs)
    whole = _of_arrays(command, Target(fun, args, kwargs, names, title))
    args, kwargs = whole.args, whole.kwargs
    if all(map(_traceable, (*args, *kwargs.values()))):
        return whole
    places = [i for i, x in enumerate(args) if not _is_input(x)]
    return with_fixed(whole, places, [name for name, x in kwargs.items() if not _is_input(x)])


def _of_arrays(command: str, target: Target) -> Target:
    """``target`` as a function of the arrays of its models, instead of the models (see ``real_jax.arrays_of``)."""
    if not _models(target):
        return target
    target = traceable(command, target)
    fun, found = target.fun, _models(target)

    def call(*args: Any, **kwargs: Any) -> Any:
        whole = [found[i][1](x) if i in found else x for i, x in enumerate(args)]
        return fun(*whole, **{name: found[name][1](x) if name in found else x for name, x in kwargs.items()})

    call.__name__ = getattr(fun, "__name__", type(fun).__name__)
    args = tuple([found[i][0] if i in found else x for i, x in enumerate(target.args)])
    kwargs = {name: found[name][0] if name in found else x for name, x in target.kwargs.items()}
    return Target(call, args, kwargs, target.names, target.title, target.loose)


def _models(target: Target) -> dict[int | str, Any]:
    """place or name of an argument with a model -> the argument's arrays, and a function that puts the rest back."""
    arguments: list[tuple[int | str, Any]] = [*enumerate(target.args), *target.kwargs.items()]
    trees = [(place, x) for place, x in arguments if leaves_of(x) is not None]
    return {place: made for place, x in trees if (made := real_jax.arrays_of(x)) is not None}


def _traceable(x: Any) -> bool:
    """Whether a transformation accepts ``x`` as an argument: a tree of arrays and numbers."""
    leaves = leaves_of(x)
    return leaves is not None and all(isinstance(leaf, ShapeDtypeStruct) or is_array_like(leaf) for leaf in leaves)


def _is_input(x: Any) -> bool:
    """Whether ``x`` stays an argument if the call has untraceable arguments too. A tree of arrays and numbers does,
    unless all its leaves are Python integers."""
    leaves = tree_leaves(x) if _traceable(x) else []
    return bool(leaves) and not all(isinstance(leaf, (bool, int)) for leaf in leaves)


def with_fixed(target: Target, places: Collection[int], keywords: Collection[str] = ()) -> Target:
    """``target`` with the arguments at ``places`` and the ``keywords`` fixed, as a function of its other arguments."""
    fun, args, kwargs = target.fun, target.args, target.kwargs
    moving = [i for i in range(len(args)) if i not in places]
    fixed = {name: x for name, x in kwargs.items() if name in keywords}

    def call(*inputs: Any, **named: Any) -> Any:
        whole = list(args)
        for i, x in zip(moving, inputs, strict=True):
            whole[i] = x
        return fun(*whole, **fixed, **named)

    call.__name__ = getattr(fun, "__name__", type(fun).__name__)
    others = {name: x for name, x in kwargs.items() if name not in keywords}
    names = tuple(target.names[i] for i in moving)
    return Target(call, tuple(args[i] for i in moving), others, names, target.title, target.loose)


def positional(target: Target) -> Target:
    """The target with its keyword arguments made positional, in the order of the jaxpr's inputs."""
    if not target.kwargs:
        return target
    keywords = sorted(target.kwargs)
    count = len(target.args)

    def fun(*args: Any) -> Any:
        return target.fun(*args[:count], **dict(zip(keywords, args[count:], strict=True)))

    fun.__name__ = getattr(target.fun, "__name__", type(target.fun).__name__)
    args = (*target.args, *(target.kwargs[name] for name in keywords))
    return Target(fun, args, {}, (*target.names, *keywords), target.title, target.loose)


def traceable(command: str, target: Target, static: int | Sequence[int] | None = None) -> Target:
    """``target`` without its static arguments, as a function that can be staged.

    The static arguments are those of the target's ``jit``, and those in the option ``static``, counted from 0.

    Raises:
      UsageError: an argument in ``static`` does not exist.
    """
    numbers = () if static is None else (static,) if isinstance(static, int) else tuple(static)
    count = len(target.args)
    for i in numbers:
        if not -count <= i < count:
            has = f"{target.title} has {count}, counted from 0" if count else f"{target.title} has none"
            raise UsageError(f"%{command} --static {i}: there is no such argument; {has}")
    places = {i % count for i in numbers}
    keywords: set[str] = set()
    if isinstance(target.fun, JitFunction):
        places |= {i % count for i in target.fun.static_argnums if -count <= i < count}
        keywords = {name for name in target.fun.static_argnames if name in target.kwargs}
    return with_fixed(target, places, keywords) if places or keywords else target


def stage(target: Target) -> ClosedJaxpr:
    """The jaxpr of a target; if the target's value is itself a jaxpr (``make_jaxpr(f)(x)``), that value."""
    if getattr(getattr(target.fun, "__code__", None), "co_qualname", "").startswith("make_jaxpr."):
        return _made_jaxpr(target)
    is_jaxpr = False

    @functools.wraps(target.fun)
    def program(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_jaxpr
        value = target.fun(*args, **kwargs)
        is_jaxpr = isinstance(value, ClosedJaxpr)
        return () if is_jaxpr else value

    closed = make_jaxpr(program)(*target.args, **target.kwargs)
    # call the target with its own arguments: some may not be arrays, and a tracer could not replace them
    return _made_jaxpr(target) if is_jaxpr else closed


def _made_jaxpr(target: Target) -> ClosedJaxpr:
    value = target.call()
    return value if isinstance(value, ClosedJaxpr) else value[0]


def free_names(text: str) -> list[str]:
    """The free names of an expression, in the order of the text. Parameters of a lambda are not free."""
    import symtable  # takes 0.5 ms, so it is not imported when the program starts

    todo = [symtable.symtable(text.strip(), "<expression>", "eval")]
    found = set()
    for table in todo:
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        todo += table.get_children()
    nodes = [node for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Name)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in nodes if node.id in found))


def function_of(session: Session, node: ast.expr, names: Sequence[str] = ()) -> Callable[..., Any]:
    """An expression as a function of the variables ``names``.

    Tracebacks call the function ``<module>``, because the user wrote only an expression. The qualified names of
    functions inside the expression do not mention the function either.
    """
    parameters = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    fun: FunctionType = session.evaluate(ast.copy_location(ast.Lambda(parameters, node), node), {})
    fun.__name__ = "expression"
    fun.__code__ = _unwrapped(fun.__code__).replace(co_name="<module>", co_qualname="<module>")
    return fun


def _unwrapped(code: CodeType) -> CodeType:
    """``code`` with the prefix of the surrounding lambda removed from its qualified names."""
    inner = tuple(_unwrapped(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=inner, co_qualname=code.co_qualname.removeprefix("<lambda>.<locals>."))


def _from_variables(session: Session, command: str, node: ast.expr, text: str) -> Target:
    free = free_names(text)
    names = [name for name in free if is_value(session.lookup(name))]
    if isinstance(node, ast.Name) and not names:
        session.evaluate(node, {})  # raises Python's own NameError
    fun = function_of(session, node, names)
    title, args = text.strip(), tuple(session.lookup(n) for n in names)
    fun, args, _ = session.watchable(command, title, fun, args)
    return Target(fun, args, {}, tuple(names), title, loose=True)


def argument_names(fun: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of the first ``count`` positional arguments of ``fun``."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return tuple(known[i] if i < len(known) else f"argument {i}" for i in range(count))


def input_names(target: Target) -> list[str]:
    """The names of the inputs of a target's jaxpr, in order: its ``leaf_names`` without static arguments."""
    return leaf_names(traceable("", target))


def leaf_names(target: Target) -> list[str]:
    """The names of the leaves of a target's arguments, in order: ``x``, ``p['w'][0]``."""
    pairs = [*zip(target.names, target.args, strict=True), *sorted(target.kwargs.items())]
    return [short_path(name + keystr(path)) for name, x in pairs for path, _ in tree_flatten_with_path(x)[0]]


def typed(session: Session, command: str, line: str, cell: str | None, everything: bool = False) -> Target:
    """The target in ``line``; for a cell, its body as a function of the inputs that ``line`` names."""
    if cell is None:
        return from_expression(session, command, line, everything)
    return from_cell(session, command, line, cell)


def from_cell(session: Session, command: str, line: str, body: str) -> Target:
    """A cell as a function of the inputs named on its first line: ``x=f32[3] y z=2.0 + 1``.

    A name alone takes the variable's value. The cell's value is its last expression or last assignment.
    """
    names: list[str] = []
    args: list[Any] = []
    for name, text in inputs(f"%%{command}", line):
        names.append(name)
        args.append(input_value(session, f"%%{command}", name, text))
    fun = _cell_function(session, command, line, body, names)
    title = f"cell({', '.join(names)})"
    fun, values, _ = session.watchable(f"%{command}", title, fun, tuple(args))
    return Target(fun, values, {}, tuple(names), title, loose=True)


def inputs(label: str, line: str) -> list[tuple[str, str | None]]:
    """The names in a line of inputs, ``x=f32[3] y``, each with the text after its equals sign (None without the sign).

    ``label`` is the command as the user writes it, for the UsageError about an invalid or repeated name.
    """
    starts = list(re.finditer(r"(?:^|\s)([A-Za-z_]\w*)\s*=(?!=)", line))
    out: list[tuple[str, str | None]] = []

    def bare(text: str) -> None:
        for word in text.replace(",", " ").split():
            if not word.isidentifier():
                raise UsageError(f"{label}: {word!r} is no name; inputs are written as x=f32[3] y=2.0 z")
            out.append((word, None))

    bare(line[: starts[0].start()] if starts else line)
    for i, match in enumerate(starts):
        end = starts[i + 1].start() if i + 1 < len(starts) else len(line)
        text, rest = _take_value(line[match.end() : end])
        out.append((match[1], text))
        bare(rest)
    names = [name for name, _ in out]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{label}: the input {name} is given twice")
    return out


def _take_value(text: str) -> tuple[str, str]:
    """Split ``text`` into the longest expression at its beginning, and the bare names after it."""
    words = text.strip().strip(",").split(" ")
    for count in range(len(words), 0, -1):
        value = " ".join(words[:count]).rstrip(",")
        try:
            ast.parse(expression_text(value).strip(), mode="eval")
        except SyntaxError:
            continue
        return value, " ".join(words[count:])
    return text.strip(), ""


def input_value(session: Session, label: str, name: str, text: str | None) -> Any:
    """The value or the type of an input, from ``text``. If ``text`` is None, the value of the user's variable."""
    if text is None:
        if not session.has(name):
            raise UsageError(f"{label}: there is no variable {name}; give its type or value: {name}=f32[3]")
        return session.lookup(name)
    found = spec(text)
    return session.evaluate(parse_expression(label[1:], expression_text(text)), {}) if found is None else found


def _cell_function(session: Session, command: str, line: str, body: str, names: list[str]) -> Callable[..., Any]:
    filename = session.new_source(f"%%{command} {line}\n{body}")
    # "\n" takes the place of the command's line; ast.parse would add its frame to the traceback of a syntax error
    tree: Any = compile("\n" + body, filename, "exec", ast.PyCF_ONLY_AST)
    if not tree.body:
        raise UsageError(f"%%{command} needs a body below its first line; its last expression is the function's value")
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(ast.Return(last.value), last)
    else:
        tree.body.append(ast.copy_location(ast.Return(_assigned(command, last)), last))
    parameters = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    function = ast.FunctionDef("cell", parameters, tree.body, [], None)
    function.lineno, function.col_offset = 1, 0
    if "type_params" in ast.FunctionDef._fields:
        function.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([function], []))
    scope: dict[str, Any] = {}
    exec(compile(module, filename, "exec", dont_inherit=True), session.namespace, scope)
    return scope["cell"]


def _assigned(command: str, last: ast.stmt) -> ast.expr:
    """The target of an assignment, as an expression that reads it."""
    if isinstance(last, ast.Assign):
        target: ast.expr = last.targets[-1]
    elif isinstance(last, (ast.AugAssign, ast.AnnAssign)):
        target = last.target
    else:
        raise UsageError(f"%%{command}: the cell must end in an expression or an assignment, which is its value")
    return ast.parse(ast.unparse(target), mode="eval").body
