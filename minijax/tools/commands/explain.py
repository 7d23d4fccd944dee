"""Commands that explain: %why %leaks %nan %keys."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import TYPE_CHECKING, Any

from minijax.core import miss_log
from minijax.core.trace import Tracer
from minijax.interop.uses import jax_use
from minijax.pytree import tree_leaves
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Block, Document, Line, Row, Section, document, line, text
from minijax.tools.documents.words import shortened
from minijax.tools.explain.caches import answer_document, explain_cache_miss, kept_document, miss_sections, why_document
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import CacheRecord
from minijax.tools.session import jax_misses, real_jax, specs, targets
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.session.source import parse_expression
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from minijax.tools.explain.leaks import Leak
    from minijax.tools.session.session import Session


_UNWATCHED = "the last cell was not watched: its cache misses are recorded anyway; after %panels on, hits are too"
_NO_MISS = "no cache of minijax missed in it"
_NO_JAX_MISS = "the last line used no cache of minijax, and real JAX traced nothing in it (JAX does not report hits)"
_JAX_UNSEEN = "JAX was imported after the last line began, so JAX's traces in this line were not watched"


def run_why(session: Session, args: Arguments) -> Result:
    everything = args["all"]
    if args["history"]:
        entries = jax_misses.since()
        nothing = "" if entries else f"no cache has missed so far: nothing was traced. {_ASK}"
        return Result(_kept(0, everything, nothing) + _jax_document(entries))
    if args["expr"]:
        return _of_call(session, args["expr"], everything)
    if session.unwatched or session.recording is None:
        notice = (_UNWATCHED, "warning") if session.unwatched else ("nothing has been recorded yet", "muted")
        shown = document(text(notice[0], role=notice[1])) + _kept(session.first_miss, everything, f"{_NO_MISS}. {_ASK}")
        return Result(shown + _of_jax(session, miss_log.total() > session.first_miss))
    jax = _of_jax(session, bool(session.recording.caches))
    if jax and not session.recording.caches:
        return Result(jax)  # the line may have called a function that JAX jitted
    return Result(why_document(session.recording, everything) + jax)


_ASK = "%why f(3.0) predicts whether a call is cached"


def _kept(first: int, everything: bool, nothing: str) -> Document:
    """The cache misses that the engine recorded, from number ``first`` on."""
    entries, made = miss_log.since(first), miss_log.total() - first
    shown = kept_document(entries, made, everything)
    if not made and nothing:
        shown = document(text(nothing, role="muted"))
    earlier = text(f"{first:,} misses before that: %why --history shows those that are kept", role="muted")
    return shown + document(earlier) if first else shown


def _of_jax(session: Session, asked: bool) -> Document:
    """JAX's cache misses in the last line. If there are none, a note that JAX traced nothing, or was not watched. There
    is no note if minijax had cache accesses (``asked``), or if the user's names do not include JAX.
    """
    entries = jax_misses.since(session.jax.first)
    if entries or asked:
        return _jax_document(entries)
    names = [value for name, value in list(session.namespace.items()) if not name.startswith("_")]
    modules = [value.__name__ for value in names if isinstance(value, ModuleType)]
    uses = "jax" in [name.partition(".")[0] for name in modules] or any(map(jax_use, filter(callable, names)))
    return document(text(_NO_JAX_MISS if session.jax.seen else _JAX_UNSEEN, role="muted")) if uses else Document()


def _jax_document(entries: Sequence[jax_misses.JaxMiss]) -> Document:
    """JAX's cache misses with JAX's own explanations."""
    records = [
        CacheRecord(each.number, "jax", each.name, False, each.reason, each.advice, place=each.place)
        for each in entries
    ]
    return Document(tuple(miss_sections([(record, ()) for record in records], False)))


def _of_call(session: Session, expression: str, everything: bool) -> Result:
    """Predict a cache hit or miss of a call of a jitted function, without calling it. If JAX jitted the function, show
    its misses so far. If it is not jitted, call it and show the cache misses inside it.
    """
    node = parse_expression("why", specs.expression_text(expression), "a call such as f(x)")
    if not isinstance(node, ast.Call):
        title = shortened(expression.strip())
        raise UsageError(f"%why needs a call of a function, such as f(3.0), not {title!r}")
    fun, values, named = targets.captured(session, node)
    if hasattr(fun, "explain_cache_miss"):
        return Result(answer_document(explain_cache_miss(fun, *values, **named)))
    called = shortened(ast.unparse(node.func))
    if jax_misses.jitted_within(fun) is not None:
        return Result(_of_jax_function(fun, called))
    if not callable(fun):
        what = f"{called} is of type {type(fun).__name__}, which cannot be called"
        raise UsageError(f"%why: {what}: %why takes a call of a jitted function")
    title = shortened(expression.strip())
    target = targets.Target(fun, values, named, (), title)
    if target.abstract:
        problem = f"{called} is not jitted, so %why has to call it, and an argument is only a type"
        raise UsageError(f"%why: {problem}: give it values, or write jit({called})(...)")
    return _made(session, target, called, everything)


def _made(session: Session, target: targets.Target, called: str, everything: bool) -> Result:
    """Call a function that is not jitted, and show the cache misses of the functions that it calls."""
    recorder = Recorder("summary", target.title)
    value, error = NOTHING, None
    try:
        with session.jax, recorder:
            value = target.call()
    except (Exception, KeyboardInterrupt) as problem:
        error = problem
    recording = recorder.recording
    of_jax = _of_jax(session, bool(recording.caches))
    if error is not None and not recording.caches and not of_jax:
        raise error
    made = f"{called} is not jitted, so it was called; the call"
    shown = document(text(f"{made} used these caches:", role="muted"))
    if not recording.caches:
        shown = Document() if of_jax else why_document(recording, everything, made)
    else:
        shown = shown + why_document(recording, everything)
    return Result(shown + of_jax, NOTHING if value is None else value, recording, error=error)


def _of_jax_function(fun: Any, called: str) -> Document:
    """The recorded cache misses of a function that JAX jitted."""
    entries = jax_misses.of(fun)
    message = f"whether JAX would trace this call of {called} is unknown: call it, then %why gives JAX's reason"
    unknown = Row("unknown", (line(("muted", message)),))
    if not entries:
        return document(unknown, text(f"JAX has not traced {called} while it was watched", role="muted"))
    return document(unknown) + _jax_document(entries)


def run_nan(session: Session, args: Arguments) -> Result:
    # imported late, to keep the start of a prompt fast
    from minijax.tools.explain import nan, nan_view

    if args["grad"] or args.cell is not None:
        target = targets.typed(session, "nan", args["expr"], args.cell).concrete("nan")
    if args["grad"]:
        if not nan.differentiable_args(target.args):
            raise UsageError(f"%nan --grad: {target.title} has no floating-point argument to differentiate by")
    elif args.cell is None:
        target = _searched(session, "nan", args["expr"])
    _refuse_tracers("nan", target)
    found = nan.find_nonfinite(target.fun, target.args, target.kwargs, args["grad"], _names(session))
    shown = nan_view.search_document(found, target.title, args["grad"])
    if (found.nan or found.inf) and not args["grad"] and args.cell is None and not _uses_jax(session, target.title):
        hint = f"%origin {shortened(target.title)} tells what led to the result, value by value"
        shown = shown + document(Row("next", (line(("muted", hint)),)))
    return Result(shown)


def _uses_jax(session: Session, title: str) -> bool:
    """Whether an expression names a JAX function, whose operations are not recorded."""
    found = [session.lookup(name) for name in targets.free_names(specs.expression_text(title))]
    return any(callable(each) and jax_use(each) for each in found)


def _refuse_tracers(command: str, target: targets.Target) -> None:
    if any(isinstance(x, Tracer) for x in tree_leaves((target.args, target.kwargs))):
        raise UsageError(f"%{command} needs values to run with, and an argument is a tracer: use it outside of %push")


def _names(session: Session) -> dict[int, str]:
    """id of a value -> the user's name for it."""
    return {id(x): name for name, x in session.namespace.items() if targets.is_value(x) and not name.startswith("_")}


def run_keys(session: Session, args: Arguments) -> Result:
    # imported late, to keep the start of a prompt fast
    from minijax.tools.explain import keys, keys_view

    target = _searched(session, "keys", args["expr"])
    _refuse_tracers("keys", target)
    found = keys.find_reused(target.fun, target.args, target.kwargs, _names(session))
    return Result(keys_view.keys_document(found, target.title))


def run_leaks(session: Session, args: Arguments) -> Result:
    # imported late, to keep the start of a prompt fast
    from minijax.tools.explain import leaks as explain_leaks

    count, leaks = explain_leaks.find_leaks(session.namespace, [session.__dict__])
    if not count:
        return Result(document(text("no tracer outlived its transformation", role="good")))
    listed = [leak for leak in leaks if args["all"] or not leak.only_prompt]
    blocks: list[Block] = [Section(_leak_title(leak), tuple(_leak_rows(leak))) for leak in listed]
    described = sum(1 + leak.same for leak in leaks)
    if described < count:
        blocks.append(text(f"and {count - described} more", role="muted"))
    if not blocks:
        blocks.append(text("your program keeps no tracer whose transformation has ended", role="good"))
    if len(listed) < len(leaks):
        kept = [leak for leak in leaks if leak.only_prompt]
        by = ", ".join(dict.fromkeys(host for leak in kept for host in leak.host))
        summary = f"{sum(1 + leak.same for leak in kept)} kept only by the prompt ({by}); %leaks --all lists them too"
        blocks.append(text(summary, role="muted"))
    return Result(Document(tuple(blocks)))


def _leak_title(leak: Leak) -> Line:
    more = f" and {leak.same} more like it" if leak.same else ""
    return line(("error", "leaked"), " ", ("type", leak.type), " of ", ("level", leak.level), ("muted", more))


def _leak_rows(leak: Leak) -> Iterator[Block]:
    if leak.function:
        yield Row("of", (line(f"{leak.level.partition(':')[0]} of {leak.function}"),))
    kind, _, number = leak.level.partition(":")
    notes = f"{kind} records no lines; %step of the call shows them" if number else "JAX recorded no line"
    unknown = f"not known: {notes}"
    yield Row("made at", (line(("place", leak.born)) if leak.born else line(("muted", unknown)),))
    if leak.chain:
        held = line(*[part for each in leak.chain for part in (("muted", " → "), ("", each))][1:])
        kept = line(("muted", f"also kept by {', '.join(leak.host)}")) if leak.host else ()
        yield Row("held by", (held, kept) if kept else (held,))
        yield Row("advice", (line("Return the value from the function instead of storing it."),))
    elif leak.host:
        yield Row(
            "held by", (line(("muted", f"only the prompt: {', '.join(leak.host)}. The tracer is freed with it.")),)
        )
    else:
        yield Row("held by", (line(("muted", "nothing that has a name: a cache, a thread or a running generator")),))


def _searched(session: Session, command: str, text: str) -> targets.Target:
    """The target to search: the whole expression, or only its outermost call if JAX would trace the expression as one
    program. JAX's trace would replace arrays that are not arguments, such as the arrays of Flax NNX models.
    """
    whole = _whole(session, command, text)
    is_call = isinstance(parse_expression(command, specs.expression_text(text), "an expression such as f(x)"), ast.Call)
    if not (is_call and session.watched and real_jax.is_kept_whole(whole.fun)):
        return whole
    session.watched.pop()
    return targets.from_expression(session, command, text).concrete(command)


def _whole(session: Session, command: str, text: str) -> targets.Target:
    """A whole expression as a function without arguments, so that the search covers its arguments too."""
    node = targets.computation(session, command, specs.expression_text(text))
    bools = specs.subscripted_bools(node)
    for each in ast.walk(node):
        if not isinstance(each, ast.Name) or session.has(each.id):
            continue
        if each.id in specs.SPECS or each in bools:
            raise UsageError(f"%{command} needs values to run with: {text.strip()} has an argument that is only a type")
    fun = targets.function_of(session, node)
    title = text.strip()
    fun, _, _ = session.watchable(command, title, fun)
    return targets.Target(fun, (), {}, (), title, loose=True)


COMMANDS = (
    Command(
        "why",
        (
            Param("expr", "text", "a call of a jitted function: predict whether it is cached, without calling it"),
            Param("all", "flag", "show every miss, even if there are many"),
            Param("history", "flag", "show the kept misses of the whole session, also of lines that were not watched"),
        ),
        "Why the last line was traced or compiled again: what differs from the nearest earlier call, by argument.\n\n"
        "It also shows what that cost and what to change, and counts the cache hits. "
        "The engine always records cache misses, so %why shows them for lines that were not watched, too. "
        "%why f(x) predicts a cache hit or miss of a jitted function without calling it. A function that is not jitted "
        "is called, and the cache misses inside it are explained. For functions that real JAX jitted, JAX's own "
        "explanations are shown.",
        "%why",
        run_why,
        group="watch",
    ),
    Command(
        "leaks",
        (Param("all", "flag", "also list tracers that only the prompt keeps"),),
        "Live tracers whose transformation has ended: where each was made, and what in your program keeps it.\n"
        "Tracers that only the prompt keeps (in Out, _, the last exception) are not leaks: the last line counts them.",
        "%leaks",
        run_leaks,
        group="watch",
    ),
    Command(
        "nan",
        (
            Param("expr", "text", "a call such as f(x), or an expression in your variables", required=True),
            Param("grad", "flag", "run the backward pass too"),
        ),
        "The first operation that made a NaN or infinity, forward or (with --grad) backward, with its inputs.\n"
        "It looks inside jit, loops (which iteration), branches, custom rules and vmap (which index).",
        "%nan jnp.log(jnp.arange(3.0) - 1.0)",
        run_nan,
        cell=True,
        group="watch",
    ),
    Command(
        "keys",
        (Param("expr", "text", "a call such as f(key, x), or an expression in your variables", required=True),),
        "The random keys that a call uses more than once, where, and from which key each key was made.\n"
        "It looks inside jit, grad, vmap, loops (which iteration) and branches. Keys are compared by their raw data, "
        "legacy PRNGKeys included. split counts as a use of its key; fold_in and clone do not. Under vmap, both "
        "branches of a cond run.",
        "%keys minijax.random.normal(minijax.random.key(0), (3,))",
        run_keys,
        group="watch",
    ),
)
