"""Check that a case gives the same values, types and programs in minijax as in JAX, under every transformation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from minijax.core.trace import stack_depth
from minijax.ir.typecheck import typecheck_jaxpr

from .case import Case
from .meaning import meaning
from .normalise import printed
from .subject import assert_same, oracle, subject, x64_mode
from .transforms import SECOND, build

Built = dict[str, tuple[Any, tuple[Any, ...]]]


def run_jitted(ns: Any, built: Built) -> dict[str, Any]:
    """The results of all transformations, from one program, because compiling takes most of the time of these tests."""

    def everything(args: dict[str, Any]) -> dict[str, Any]:
        return {name: function(*args[name]) for name, (function, _) in built.items()}

    return ns.jit(everything)({name: args for name, (_, args) in built.items()})


def on_arrays(args: Any) -> Any:
    """``args`` as arrays of the subject. NumPy's own operators are not under test."""
    convert = lambda leaf: subject.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf  # noqa: E731
    return oracle.tree_util.tree_map(lambda leaf: leaf if _is_float0(leaf) else convert(leaf), args)


def _is_float0(leaf: Any) -> bool:
    return getattr(leaf, "dtype", None) == oracle.dtypes.float0


def check_values(case: Case, mode: str = "32", scale: float = 1.0) -> None:
    """The subject's values equal JAX's: evaluated, compiled, and with ``jit`` inside one transformation.

    To save time, second derivatives are not compiled in 64-bit mode.
    """
    with x64_mode(mode):
        ours, inner = build(subject, case), build(subject, case, inner_jit=True)
        wanted = run_jitted(oracle, build(oracle, case))
        compiled = run_jitted(subject, {t: each for t, each in ours.items() if mode == "32" or t not in SECOND})
        answers = [("evaluated", t, function(*on_arrays(args))) for t, (function, args) in ours.items()]
        answers += [("compiled", t, answer) for t, answer in compiled.items()]
        offered = [t for t in ("jvp", "grad", "vmap") if t in ours]
        turn = [*inner] if "jit" in case.name else offered[len(case.name) % len(offered) :][:1] if offered else []
        answers += [("with jit inside", t, inner[t][0](*inner[t][1])) for t in turn]
        for way, t, answer in answers:
            try:
                assert_same(answer, wanted[t], scale=scale * case.scale, coarse=case.coarse)
            except AssertionError as error:
                raise AssertionError(f"{t}, {way}: {error}") from None
        assert stack_depth() == 0


def check_programs(case: Case, mode: str = "32", other: Collection[str] = ()) -> None:
    """The programs are well typed and print as JAX's. For transformations in ``other``, only the meanings agree."""
    with x64_mode(mode):
        ours, theirs, wrong = build(subject, case), build(oracle, case), []
        for t in ours:
            program, expected = (ns.make_jaxpr(f)(*args) for ns, (f, args) in ((subject, ours[t]), (oracle, theirs[t])))
            typecheck_jaxpr(program)
            # minijax's linearized loops share variables, so their texts differ
            shown = meaning if t in other or t == "linearize" else printed
            if shown(program) != shown(expected):
                wrong.append(f"{t}:\n{program}\nJAX:\n{expected}")
        assert not wrong, "\n".join(wrong)
