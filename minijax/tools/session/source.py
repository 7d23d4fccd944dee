"""Source text as typed: whether it is complete, how a file splits into inputs, and how to compile it.

An input is one complete Python statement (or several on one line), a command line that begins with ``%``, or
a cell that begins with ``%%`` and ends at the next empty line.
"""

from __future__ import annotations
import __future__

import ast
import codeop
import copy
import functools
import linecache
import operator
import re
import textwrap
import warnings
from collections.abc import Iterator
from types import CodeType

from minijax.tools.usage import UsageError

# Maximum number of inputs whose source tracebacks can show; the earliest are dropped.
MOST_REGISTERED = 5000
_registered: dict[str, None] = {}
INDENT = "    "
# After a statement that begins with one of these words, the next line is indented one level less.
_LAST = ("return", "raise", "break", "continue", "pass")
_SHELL = r"(?:[A-Za-z_]\w*\s*=\s*)?!\s*[^=\s].*"
# The prompts of Python and IPython in pasted text: _PROMPTS matches them on any line, _PASTED only before an input.
_PROMPTS = r"(?m)^[ \t]*(?:>>>|\.\.\.|In \[\d+\]:|[ \t]*\.\.\.:)(?:[ ]|$)"
_PASTED = r"\s*(?:>>>|In \[\d+\]:)(?:\s|$)"


def is_command(source: str) -> bool:
    """Whether ``source`` is a command line or cell, a shell line, or a question such as ``f?``."""
    return source.lstrip().startswith("%") or is_question(source) or is_shell(source)


def is_shell(source: str) -> bool:
    """Whether ``source`` is a shell line, ``!ls``, or assigns the output of one: ``names = !ls``."""
    return re.fullmatch(_SHELL, source.strip()) is not None


def is_call(source: str) -> bool:
    """Whether ``source`` is a single call on one line."""
    try:
        return "\n" not in source.strip() and isinstance(ast.parse(source.strip(), mode="eval").body, ast.Call)
    except (SyntaxError, ValueError):
        return False


def is_question(source: str) -> bool:
    """Whether ``source`` asks about a name, or for help: ``f?``, ``f??``, ``?f``, ``%grad?``, ``?``."""
    asked = source.strip()
    before, after = len(asked) - len(asked.lstrip("?")), len(asked) - len(asked.rstrip("?"))
    if not asked.strip("?"):
        return 0 < len(asked) <= 2
    if (before and after) or not 0 < before + after <= 2:
        return False
    return all(part.isidentifier() for part in asked.strip("?").strip().lstrip("%").split("."))


def as_command(source: str) -> str:
    """``source`` as a command: ``%doc f`` for ``f?``, ``%sh ls`` for ``!ls``; any other source stays the same."""
    if is_shell(source):
        return "%sh " + source.strip().removeprefix("!").strip()
    if not is_question(source):
        return source
    name = source.replace("?", " ").strip()
    if not name or name.startswith("%"):
        return f"%help {name}".rstrip()
    return f"%doc {name}" + (" --source" if "??" in source else "")


def cleaned(source: str) -> str:
    """``source`` without pasted prompts and without the indent that all its lines share."""
    if re.match(_PASTED, source):
        lines = source.split("\n")
        kept = [line for line in lines if re.match(_PROMPTS, line)]
        # lines without a prompt are output
        source = "\n".join(re.sub(_PROMPTS, "", line, count=1) for line in kept)
        return source if "\n" not in source else source + "\n"
    return textwrap.dedent(source) if source[:1] in (" ", "\t") else source


def status(source: str) -> str:
    """'complete', 'incomplete' (needs more lines) or 'invalid' (no further line can repair it)."""
    source = cleaned(source)
    if not source.strip():
        return "complete"
    if is_command(source):
        ended = not source.lstrip().startswith("%%") or source.endswith("\n")
        return "complete" if ended else "incomplete"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = codeop.compile_command(source, "<input>", "exec")
    except (SyntaxError, ValueError, OverflowError):
        return "invalid"
    except (RecursionError, MemoryError):
        return "complete"  # nested too deeply for the compiler; running it shows the error
    if code is None:
        return "incomplete"
    lines = source.split("\n")
    # A block ends at an empty line: until then the next line may belong to it.
    if len(lines) > 1 and lines[-1].strip() and lines[-1][0].isspace():
        return "incomplete"
    return "complete"


def syntax_error(source: str) -> SyntaxError | None:
    """The error that compiling ``source`` raises, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<input>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, OverflowError) as error:
        return SyntaxError(str(error))
    except (RecursionError, MemoryError):
        pass
    return None


def next_indent(source: str) -> str:
    """The indent of the line after ``source``."""
    last = source.split("\n")[-1]
    indent = last[: len(last) - len(last.lstrip())]
    if last.rstrip().endswith(":"):
        return indent + INDENT
    words = last.split(None, 1)
    ends = bool(words) and words[0] in _LAST and _closed(source)
    return indent.removesuffix(INDENT) if ends else indent


def inputs(source: str) -> Iterator[str]:
    """The inputs of a file, in order."""
    buffer: list[str] = []
    lines = source.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        asked = (line.rstrip().endswith("?") or line.startswith("?")) and is_question(line)
        is_ours = line.startswith("%") or asked or ("!" in line and not line[0].isspace() and is_shell(line))
        if not is_ours or not _closed("\n".join(buffer)):
            buffer.append(line)
            continue
        yield from _statements("\n".join(buffer))
        buffer = []
        if line.startswith("%%"):
            body = [line]
            while i < len(lines) and lines[i].strip():
                body.append(lines[i])
                i += 1
            line = "\n".join(body) + "\n"
        yield line
    yield from _statements("\n".join(buffer))


def _closed(source: str) -> bool:
    """Whether ``source`` leaves no bracket or string open, so that ``%`` on the next line begins a command."""
    if not source.strip():
        return True
    try:
        ast.parse(source)
    except SyntaxError:
        return status(source) == "invalid"
    except (ValueError, RecursionError, MemoryError):
        pass
    return True


def _statements(source: str) -> Iterator[str]:
    """The top-level statements of Python source; statements on the same line stay together."""
    if not source.strip():
        return
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield source.strip("\n")  # running it shows the error
        return
    lines = source.split("\n")
    end = 0
    start = None
    for i, node in enumerate(body):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        start = first if start is None else start
        end = node.end_lineno or first
        following = body[i + 1].lineno if i + 1 < len(body) else None
        if following != end:
            yield "\n".join(lines[start - 1 : end])
            start = None


def register(filename: str, source: str) -> None:
    """Let tracebacks, ``inspect`` and the stepper find ``source`` by ``filename``."""
    linecache.cache[filename] = (len(source), None, [line + "\n" for line in source.split("\n")], filename)
    # a later session in the same process may register a name again: the name then counts as the newest
    _registered.pop(filename, None)
    _registered[filename] = None
    if len(_registered) > MOST_REGISTERED:
        oldest = next(iter(_registered))
        del _registered[oldest]
        linecache.cache.pop(oldest, None)


_FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


def future_flags(code: CodeType | None) -> int:
    """The ``__future__`` flags that ``code`` was compiled with, for compiling later inputs."""
    return 0 if code is None else code.co_flags & _FUTURE


def compiled(source: str, filename: str, flags: int = 0) -> tuple[CodeType | None, CodeType | None]:
    """``(statements, expression)``: the code to execute, and the last expression, whose value is shown.

    The expression is None if the source does not end in one, or if a semicolon silences it. Raises SyntaxError.
    """
    tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    body = tree.body  # type: ignore[attr-defined]
    last = body[-1] if body else None
    silent = source.rstrip().endswith(";")
    expression = None
    if isinstance(last, ast.Expr) and not silent:
        expression = compile(ast.Expression(last.value), filename, "eval", flags, dont_inherit=True)
        body = body[:-1]
    if not body:
        return None, expression
    module = ast.Module(body, getattr(tree, "type_ignores", []))
    return compile(module, filename, "exec", flags, dont_inherit=True), expression


def placed(node: ast.expr, filename: str) -> ast.expr:
    """Copy an expression and count its columns from the start of the command line that contains it.

    The command line is the first line of ``filename``. If the expression's names are not in it, the columns do not
    change.
    """
    node = copy.deepcopy(node)
    command = re.match(rb"\s*%*\w*\s*", line := linecache.getline(filename, 1).encode())
    first = [each for each in ast.walk(node) if isinstance(each, ast.expr) and getattr(each, "lineno", 0) == 1]
    names = [(each.col_offset, each.id.encode()) for each in first if isinstance(each, ast.Name)]
    if command is None or not names:
        return node
    for by in range(command.end(), len(line)):
        if all(line.startswith(name, by + column) for column, name in names):
            for each in first:
                each.col_offset += by
                if each.end_lineno == 1 and each.end_col_offset is not None:
                    each.end_col_offset += by
            break
    return node


def parse_expression(name: str, text: str, what: str = "an expression") -> ast.expr:
    """Parse ``text`` as a Python expression. Raise UsageError if ``text`` is no expression."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        detail = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"%{name} needs {what}, but {text.strip()!r} is no valid Python: {detail}") from None
