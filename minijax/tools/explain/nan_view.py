"""The display of ``%nan``: the result of a search, with advice."""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.documents.document import Block, Document, Line, Row, Section, line
from minijax.tools.documents.words import plural, shortened
from minijax.tools.explain.nan import Cause, Found, Operand, Search
from minijax.tools.explain.walk import MOST_EQUATIONS, place_text
from minijax.tools.recording import preview

_LONGEST = 100
# Maximum number of operations that are listed besides the first.
_MOST_CAUSES = 8

# primitive -> the usual cause of a NaN or infinity from it, and a fix
ADVICE = {
    "log": "log of 0 is -inf, and log of a negative number is nan: keep its argument positive, jnp.maximum(x, tiny).",
    "log1p": "log1p of -1 is -inf, and log1p below -1 is nan: keep its argument above -1.",
    "sqrt": "sqrt of a negative number is nan: keep its argument at 0 or above with jnp.maximum(x, 0).",
    "rsqrt": "rsqrt of 0 is inf, and rsqrt of a negative number is nan: add a small constant to its argument.",
    "div": "x / 0 is inf and 0 / 0 is nan: choose another divisor where it is 0, jnp.where(d == 0, 1, d).",
    "pow": "A negative base to a fractional power is nan, 0 to a negative power is inf: guard the base with jnp.where.",
    "exp": "exp overflows float32 above 88.7: subtract the maximum first, as nn.softmax and nn.logsumexp do.",
    "exp2": "exp2 overflows float32 from 128 on: subtract the maximum first.",
    "sub": "inf - inf is nan: look where the infinity comes from (it is shown above), or mask before subtracting.",
    "add": "inf - inf is nan: look where the infinity comes from (it is shown above), or mask before adding.",
    "mul": "0 * inf is nan: choose with jnp.where before multiplying.",
    "dot_general": "A product overflowed, or 0 was multiplied by inf: scale the operands.",
    "acos": "acos is nan outside of [-1, 1]: clip its argument.",
    "asin": "asin is nan outside of [-1, 1]: clip its argument.",
    "atanh": "atanh is infinite at -1 and 1, and nan beyond: clip its argument.",
    "integer_pow": "0 to a negative power is inf, and high powers overflow: guard the argument with jnp.where.",
}
# These primitives make an infinity from finite operands only by overflow.
OVERFLOWING = ("add", "sub", "mul", "dot_general", "reduce_sum", "cumsum", "convert_element_type", "square")
OVERFLOW = "The exact result is beyond the largest number of its type: scale the operands, or use a wider type."
INF_BY_INF = (
    "inf / inf is nan: look where the infinity comes from (it is shown above). Keep both finite: subtract the maximum "
    "before an exp."
)
BACKWARD = (
    "Where only the derivative is not finite, guard the argument before the operation, not the result "
    "(jnp.where differentiates both branches)."
)


_WORDS = {"nan": "NaN", "inf": "infinity"}
READ = "No operation made it. Look for the number or array above in the program's text and closed-over variables."
OUTSIDE = "the inputs were finite, so the value comes from Python or NumPy code, or is a constant of the program"


def search_document(search: Search, title: str, backward: bool) -> Document:
    """The result of the search in the expression ``title``."""
    blocks: list[Block] = []
    for each in search.given:
        blocks.append(Row("given", (_operand_line(each, "is not finite to begin with:"),)))
    main = next((each.found for each in search.causes if each.found is not None and not each.read), search.nan)
    if search.inf is not None:
        blocks.append(_found_section(search.inf, "first infinity made by ", search))
    if main is not None:
        first = "first NaN" if main is search.nan else "first NaN of the result"
        blocks.append(_found_section(main, f"{first} made by ", search))
    # if a named argument has the NaN already, the equation that reads it adds nothing
    read = search.read if search.nan is None and not search.given else None
    if read is not None and search.bad_result:
        said = f"first {_WORDS[read.what]} was there before any operation, first read by "
        blocks.append(_found_section(read, said, search))
    blocks += _other_causes(search, main or read)
    if not search.nan and not search.inf:
        passes = "forward and backward" if backward else "forward"
        blocks.append(Row("found", (line(("good", "nothing"), f": no operation of {title} made a NaN or infinity"),)))
        ran = f"{plural(search.equations, 'equation')} run, {passes}"
        blocks.append(Row("", (line(("muted", ran if backward else f"{ran}; --grad looks at the derivative too")),)))
    blocks.append(Row("result", tuple(_result_lines(search))))
    if read is not None and not search.bad_result:  # many programs write a NaN or infinity and discard it with where
        what, place = _WORDS[read.what], place_text(read.source)[0]
        said = f"the {what} is written in the program; {read.primitive} at {place} reads it first"
        blocks.append(Row("", (line(("muted", said)),)))
    if search.hurried:
        said = f"after {MOST_EQUATIONS:,} equations, loops ran as a whole: a loop may be named, not the equation in it"
        blocks.append(Row("", (line(("muted", said)),)))
    return Document(tuple(blocks))


def _other_causes(search: Search, shown: Found | None) -> Iterator[Block]:
    """The NaNs that ``shown`` did not make: an earlier one that did not reach the result, and others that did."""
    reached = any(each.found is search.nan for each in search.causes)
    if search.bad_result and search.nan is not None and not reached and not search.unknown:
        yield Row("masked", (line(*_made_at(search.nan), " made a NaN that did not reach the result"),))
    groups = dict.fromkeys(_cause_line(each) for each in search.causes if each.found is not shown)
    lines = []
    for name in groups:
        counts = [count for causes, count in search.reaching if name in map(_cause_line, causes)]
        if name and (shown is None or name[:3] != _made_at(shown)):
            lines.append(line(*name, ("muted", f"  {plural(sum(counts), 'element')} of the result")))
    if len(lines) > _MOST_CAUSES:
        lines[_MOST_CAUSES:] = [line(("muted", f"and {plural(len(lines) - _MOST_CAUSES, 'more operation')}"))]
    if lines:
        also = any(each.found is shown for each in search.causes)
        yield Row("also by" if also else "by", tuple(lines))


def _cause_line(cause: Cause) -> Line:
    if cause.found is None:
        return ()
    return line(*_made_at(cause.found), ", which reads a NaN that the program writes" if cause.read else "")


def _made_at(found: Found) -> Line:
    place = place_text(found.source)[0]
    return line(("primitive", found.primitive), ("muted", f" ({found.level}) at "), ("place", place))


def _result_lines(search: Search) -> Iterator[Line]:
    found = search.nan is not None or search.inf is not None or search.read is not None or bool(search.given)
    if search.bad_result is None:
        yield line(f"unknown: {search.stopped}")
    elif search.bad_result:
        count = f": NaN in {search.nans:,} of {search.size:,} elements" if search.size > 1 else ""
        count = count if search.nans else ": it has infinities and no NaN"
        yield line(("error", "not finite"), count if found else f": {OUTSIDE}")
        for each in search.causes:
            if each.name:
                count = plural(sum(many for causes, many in search.reaching if each in causes), "element")
                yield line(f"the NaN of {each.name} is in {count} of it")
        if search.unknown and found:
            yield line(("muted", f"the causes of {plural(search.unknown, 'NaN')} of it are unknown"))
    elif found:
        yield line(("good", "finite"), f": the {'NaN' if _has_nan(search) else 'infinity'} did not reach it")
    else:
        yield line(("good", "finite"))


def _has_nan(search: Search) -> bool:
    found = search.nan or search.read
    return (found is not None and found.what == "nan") or any(each.element == "nan" for each in search.given)


def _found_section(found: Found, said: str, search: Search) -> Section:
    title = line(("error", said), ("primitive", found.primitive), ("muted", f" ({found.level})"))
    return Section(title, tuple(_found_rows(found, READ if found is search.read else _advice(found, search))))


def _found_rows(found: Found, advice: str) -> Iterator[Block]:
    place, text = place_text(found.source)
    yield Row("at", (line(("place", place)), *([line(shortened(text, _LONGEST))] if text else [])))
    params = preview.parameters(found.params)
    equation = f"{' '.join(o.name + ':' + o.type for o in found.outputs)} = "
    brief = f"[{' '.join(f'{k}={v}' for k, v in params)}]" if params else ""
    operands = [o.name or o.smallest for o in found.inputs]
    # parentheses and commas show where each operand ends if one is an expression
    read = f"({', '.join(operands)})" if any(" " in each for each in operands) else f" {' '.join(operands)}"
    yield Row("equation", (line(equation, ("primitive", found.primitive), ("param-value", brief), read),))
    if found.inside:
        yield Row("inside", (line(" ▸ ".join(found.inside)),))
    if found.batch:
        yield Row("batch", (line(", ".join(found.batch)),))
    lines = tuple(_operand_line(each) for each in found.inputs if each.name)
    if lines:
        yield Row("inputs" if len(lines) > 1 else "input", lines)
    for each in found.outputs:
        if each.bad:
            yield Row("output", (_operand_line(each, _count_text(each)),))
    yield Row("advice", (line(advice),))


def _count_text(operand: Operand) -> str:
    if operand.size == 1:
        return ""
    return f"{operand.bad} of {operand.size} elements;"


def _operand_line(operand: Operand, said: str = "") -> Line:
    out = [("var", operand.name), ("", " "), ("type", operand.type)]
    if said:
        out.append(("", f"  {said}"))
    if operand.size > 1 and operand.smallest:
        out += [("muted", "  min "), ("value", operand.smallest), ("muted", "  max "), ("value", operand.largest)]
    elif operand.size == 1:
        out += [("muted", "  "), ("value", operand.element or operand.smallest)]
    if operand.size > 1 and operand.index is not None:
        at = ", ".join(map(str, operand.index))
        out += [("muted", "  at "), ("", f"[{at}]"), ("muted", ": "), ("value", operand.element)]
    return tuple(out)


def _advice(found: Found, search: Search) -> str:
    said = ADVICE.get(found.primitive, "Look at its inputs: which of them is wrong?")
    if found.primitive == "div" and [each.element or each.smallest for each in found.inputs[1:]] in (["inf"], ["-inf"]):
        said = INF_BY_INF
    if search.inf is None:
        said = said.replace(" (it is shown above)", "")
    if found.what == "inf" and found.primitive in OVERFLOWING:
        said = OVERFLOW
    return f"{said} {BACKWARD}" if found.level != "forward" else said
