"""For error messages: the origin of a traced value, and a replacement for the Python code that needs the value.

``story`` gives the lines of the user's program that lead from a function's arguments to a tracer. While the function is
staged, the lines come from its equations. Without equations (``vmap`` outside ``jit``), they come from the source of
the running function. ``advice`` depends on the construct that needs the value: an ``if``, a ``range``, a shape. Nothing
here runs before an error is certain.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from minijax import errors

# The largest number of lines in a story. A longer one is cut in the middle.
MOST_LINES = 5
_LONGEST_LINE = 70
# At most this many equations are searched: the latest ones.
_MOST_EQUATIONS = 20_000
# Source files with more characters are not parsed for an error message.
_LONGEST_SOURCE = 1_000_000
# Variables are searched in at most this many frames, innermost first.
_MOST_FRAMES = 64

# (file, line, what happens there)
Step = tuple[str, int, str]


def story(tracer: Any) -> str:
    """Text that describes how ``tracer`` was computed from the arguments; '' if that is unknown."""
    made = tracer._made_by()
    inner = tracer
    lines: list[str] = []
    while made is None:
        inner = inner._inside()
        if inner is None:
            break
        made = inner._made_by()
    name = variable_of(tracer)
    if name:
        lines.append(f"The value is {name}.")
    if made is not None:
        if inner is not tracer:
            lines.append(f"It holds a {inner._trace.main!r} tracer. {inner._origin()}".rstrip())
        steps = list(_steps(*made))
    else:
        steps, names = _steps_in_source(errors.user_frame(), tracer)
        if names:
            arguments = f"argument{'s' * (len(names) > 1)} {' and '.join(names)}"
            lines.append(f"This value depends on the value{'s' * (len(names) > 1)} of the {arguments}.")
    if steps:
        lines.append("It was computed as follows:")
        lines += [f"  {each}" for each in _shown(steps)]
    return "\n".join(lines)


def variable_of(x: Any) -> str:
    """A user's variable that holds ``x``: "`w` of loss", or in a container "`params['w']` of loss"; '' if none does."""
    frame = errors.user_frame()
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if errors.is_user_file(frame.f_code.co_filename) and frame.f_locals is not frame.f_globals:
            name = _name_in(list(frame.f_locals.items()), x)
            if name:
                return f"`{name}` of {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def _name_in(items: list[tuple[str, Any]], x: Any) -> str:
    for name, value in items:
        if value is x and name.strip("_"):
            return name
    return _part_of(items, x)


def _part_of(containers: list[tuple[str, Any]], x: Any) -> str:
    """The path of ``x`` in one of the named ``containers``: ``params['w']``; '' if it is in none."""
    looked_at = 0
    for name, value in containers:
        for key, each in _parts(value):
            looked_at += 1
            if each is x:
                return name + key
            if looked_at > _MOST_LOOKED_AT:
                return ""
    return ""


def assigned_name(info: errors.SourceInfo | None) -> str:
    """``h`` if the value made at this place is the whole right side of ``h = ...``; else ''."""
    if info is None:
        return ""
    position, module = _position(info), _module(info[0])
    if position is None or module is None:
        return ""
    for node, parent in _path_to(module, position):
        if _span(node) != ((position[0], position[2]), (position[1], position[3])):
            return ""
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and node is parent.value:
            target = parent.targets[0]
            return target.id if isinstance(target, ast.Name) else ""
    return ""


def _shown(steps: list[Step]) -> Iterator[str]:
    for file, line, what in shortened(steps):
        if not line:
            yield what
            continue
        text = linecache.getline(file, line).strip()
        text = text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "..."
        yield f"{os.path.basename(file)}:{line}  {text}" + (f"   ({what})" if what else "")


def shortened(steps: list[Step]) -> list[Step]:
    """Shorten ``steps`` to ``MOST_LINES``: keep the first and the last steps."""
    if len(steps) <= MOST_LINES:
        return steps
    ahead = MOST_LINES // 2
    left_out = len(steps[ahead:-ahead])
    return [*steps[:ahead], ("", 0, f"({left_out} lines in between)"), *steps[-ahead:]]


def _steps(eqns: Sequence[Any], var: Any) -> Iterator[Step]:
    """The lines of the equations that ``var`` depends on. If there are too many, only those of a shortest path."""
    behind = slice_of(eqns, var)
    lines = list(_by_line(behind))
    return iter(lines if len(lines) <= MOST_LINES else _by_line(_shortest(behind, var)))


def slice_of(eqns: Sequence[Any], var: Any) -> list[Any]:
    """The equations that ``var`` depends on, in order."""
    wanted = {id(var)}
    found = []
    for eqn in reversed(eqns[-_MOST_EQUATIONS:]):
        if any(id(v) in wanted for v in eqn.outvars):
            found.append(eqn)
            wanted.update(map(id, eqn.invars))
    found.reverse()
    return found


def _shortest(eqns: Sequence[Any], var: Any) -> list[Any]:
    """The equations on a shortest path to ``var`` from a variable that none of ``eqns`` defines."""
    made = {id(v): eqn for eqn in eqns for v in eqn.outvars}
    seen = set()
    # variables, the nearest to ``var`` first, each with its path to ``var``: (first equation, the rest of the path)
    ways: deque[tuple[Any, Any]] = deque([(var, None)])
    while True:
        v, way = ways.popleft()
        eqn = made.get(id(v))
        operands = [] if eqn is None else [x for x in eqn.invars if not hasattr(x, "val")]
        if not operands:
            break
        if id(eqn) not in seen:
            seen.add(id(eqn))
            ways.extend((x, (eqn, way)) for x in operands)
    path = []
    while way:
        eqn, way = way
        path.append(eqn)
    return path


def _by_line(eqns: Iterable[Any]) -> Iterator[Step]:
    """Merge neighbouring equations of one line into one step that names their primitives."""
    place, names = ("", 0), [""]
    # id of a code object -> the line of each instruction (reading all lines takes as long as finding one)
    lines: dict[int, list[int | None]] = {}
    for eqn in eqns:
        if eqn.source is None:
            continue
        code, offset, *_ = eqn.source
        if id(code) not in lines:
            lines[id(code)] = [line for line, *_ in code.co_positions()]
        at = (code.co_filename, lines[id(code)][offset // 2] or code.co_firstlineno)
        if at == place:
            names.append(eqn.primitive.name)
            continue
        if place[1]:
            yield (*place, ", ".join(names))
        place, names = at, [eqn.primitive.name]
    if place[1]:
        yield (*place, ", ".join(names))


@functools.lru_cache(maxsize=8)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _module(code: CodeType) -> ast.Module | None:
    source = "".join(linecache.getlines(code.co_filename))
    return _parsed(source) if source and len(source) <= _LONGEST_SOURCE else None


def _function(code: CodeType) -> ast.AST | None:
    """The syntax tree of the function with this code."""
    module = _module(code)
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _steps_in_source(frame: FrameType | None, tracer: Any) -> tuple[list[Step], list[str]]:
    """The assignments of the running function that lead to the tracer, and the traced parameters that these use."""
    function: Any = None if frame is None else _function(frame.f_code)
    if frame is None or function is None:
        return [], []
    here, kind = frame.f_lineno, type(tracer).__mro__[-2]  # the class of all tracers
    traced = {name for name, x in frame.f_locals.items() if isinstance(x, kind) or _holds(x, kind)}
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    wanted = {n.id for n in names if n.lineno <= here <= (n.end_lineno or n.lineno)} & traced
    found: list[Step] = [(frame.f_code.co_filename, here, "")]
    assigned = [n for n in ast.walk(function) if isinstance(n, (ast.Assign, ast.AugAssign, ast.AnnAssign))]
    for node in sorted(assigned, key=lambda n: -n.lineno):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        written = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        if node.lineno < here and written & wanted and node.value is not None:
            found.append((frame.f_code.co_filename, node.lineno, ""))
            wanted |= {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)} & traced
    found.reverse()
    of = function.args
    parameters = [a.arg for a in (*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs, of.kwarg) if a is not None]
    return found, [name for name in parameters if name in wanted]


def _holds(x: Any, kind: type) -> bool:
    """Whether a user's container directly holds a tracer."""
    if type(x) is dict:
        x = x.values()
    elif type(x) not in (list, tuple):
        return False
    return any(isinstance(each, kind) for each in x)


_BOOL = {
    "if": "Use lax.cond in place of this `if`, or jnp.where to choose between arrays",
    "while": "Use lax.while_loop in place of this `while`",
    "assert": "Use debug.callback to look at the value while the program runs, or leave this `assert` out",
    "and": "Use & and | (jnp.logical_and, jnp.logical_or) in place of `and` and `or`",
    "not": "Use ~ (jnp.logical_not) in place of `not`",
    "chain": "Use (a < x) & (x < b) in place of a chained comparison",
    "max": "Use jnp.maximum or jnp.max in place of Python's max",
    "min": "Use jnp.minimum or jnp.min in place of Python's min",
    "sorted": "Use jnp.sort in place of Python's sorted",
    "any": "Use jnp.any in place of Python's any",
    "all": "Use jnp.all in place of Python's all",
    "in": "Use jnp.any(xs == x) in place of `in`",
    "for": "Use jnp.where in place of this condition",
    "": "Use jnp.where, lax.cond or lax.while_loop in place of Python control flow",
}
_INDEX = {
    "range": "Use lax.fori_loop (or lax.scan) in place of this loop over range",
    "subscript": "Use jnp.array for the indexed object: an array takes a traced index, a list does not (lax.switch "
    "chooses among functions)",
    "": "Use jnp.array to turn the list being indexed into an array, or lax.fori_loop for a loop",
}
_OTHER = {
    "float": "Use x.astype(float) for another dtype, and leave out float()",
    "int": "Use x.astype(int) for another dtype, and leave out int()",
    "complex": "Use x.astype(complex) for another dtype, and leave out complex()",
}
_TABLES = {"bool": _BOOL, "index": _INDEX, "value": _OTHER}


def advice(kind: str, label: str) -> str:
    """Advice for a tracer of ``label`` where Python needs a truth value ('bool'), an 'index' or a 'value'."""
    frame = errors.user_frame()
    table = _TABLES[kind]
    construct = next((c for c in _constructs(frame) if c in table), "") if frame is not None else ""
    if construct not in table:
        first = _make_concrete(label)
        return f"{first[0].upper()}{first[1:]}, or keep it an array."
    return f"{table[construct]}; or {_make_concrete(label)}."


def _make_concrete(label: str) -> str:
    if label in ("jit", "make_jaxpr"):
        return f"pass the value as a static argument (static_argnums of {label})"
    if label == "pmap":
        return "pass the value as a static argument (static_broadcasted_argnums of pmap)"
    if label == "vmap":
        return "leave the argument out of the batch (in_axes=None)"
    return "compute the value before the function is transformed"


def _constructs(frame: FrameType) -> Iterator[str]:
    """The constructs that Python executes at the current instruction of ``frame``, innermost first."""
    position, module = _position((frame.f_code, frame.f_lasti)), _module(frame.f_code)
    if position is None or module is None:
        return
    path = _path_to(module, position)
    if path and isinstance(path[0][0], ast.IfExp):  # Python gives the position of the whole expression, not of its test
        yield "if"
    for node, parent in path:
        yield from _called(node, parent)


def _position(info: errors.SourceInfo) -> tuple[int, int, int, int] | None:
    position = errors.span(info)
    return None if None in position else position  # type: ignore[return-value]


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]] | None:
    start, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if start is None or end is None:
        return None
    return (start, node.col_offset), (end, node.end_col_offset)  # type: ignore[attr-defined]


def _path_to(module: ast.Module, position: tuple[int, int, int, int]) -> list[tuple[ast.AST, ast.AST]]:
    """The nodes around the position up to a statement, innermost first, each with its parent."""
    first, last = (position[0], position[2]), (position[1], position[3])
    path: list[tuple[ast.AST, ast.AST]] = []
    node: ast.AST = module
    while True:
        for child in ast.iter_child_nodes(node):
            span = _span(child)
            if span is not None and span[0] <= first and last <= span[1]:
                path.append((child, node))
                node = child
                break
        else:
            break
    path.reverse()
    for i, (node, _) in enumerate(path):
        if isinstance(node, ast.stmt):
            return path[: i + 1]
    return path


def _called(node: ast.AST, parent: ast.AST) -> Iterator[str]:
    """The names of the construct that ``node`` forms and of the constructs whose test or operand ``node`` is."""
    if isinstance(parent, (ast.If, ast.IfExp)) and node is parent.test:
        yield "if"
    elif isinstance(parent, ast.While) and node is parent.test:
        yield "while"
    elif isinstance(parent, ast.Assert):
        yield "assert"
    elif isinstance(parent, ast.comprehension):
        yield "for"
    if isinstance(node, ast.BoolOp) or isinstance(parent, ast.BoolOp):
        yield "and"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not"
    elif isinstance(node, ast.Compare):
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            yield "in"
        elif len(node.ops) > 1:
            yield "chain"
    elif isinstance(node, ast.Subscript):
        yield "subscript"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id
    if isinstance(node, (ast.If, ast.While, ast.Assert)):
        yield type(node).__name__.lower()


_MOST_LOOKED_AT = 5000


def held_as(x: Any) -> str:
    """How the user's innermost function or module reaches ``x``: ``acc[0]``, ``the global cache['y']``; '' if not."""
    frame = errors.user_frame()
    if frame is None:
        return ""
    containers: list[tuple[str, Any]] = []
    for space, kind in ((frame.f_locals, ""), (frame.f_globals, "the global ")):
        for name, value in list(space.items()):
            if value is x and kind and name[:1] != "_":
                return kind + name
            containers.append((f"{kind}{name}", value))
    return _part_of(containers, x)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if type(value) in (list, tuple):
        yield from ((f"[{i}]", each) for i, each in enumerate(value))
    elif type(value) is dict:
        yield from ((f"[{key!r}]", each) for key, each in value.items() if type(key) in (str, int))
    elif not isinstance(value, (type, types.ModuleType)):
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(own) is dict:
            yield from ((f".{key}", each) for key, each in own.items() if type(key) is str)
