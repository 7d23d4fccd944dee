"""Commands for authors of rules: %rules %check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

# The modules that show and test rules are imported late, to keep the start of a session fast.


def run_rules(session: Session, args: Arguments) -> Result:
    from minijax.tools.explain import rules

    names = args["primitives"].split()
    chosen = [rules.primitive_named(session, "rules", name) for name in names] or rules.primitives(session)
    if args["missing"]:
        return Result(rules.holes(chosen))
    if len(names) == 1:
        return Result(rules.one(chosen[0], args["full"]))
    if args["full"]:
        raise UsageError("%rules --full shows the rules of one primitive: name it")
    return Result(rules.matrix(chosen))


def run_check(session: Session, args: Arguments) -> Result:
    from minijax.tools.explain import check

    custom = check.custom_function(session, args["primitive"])
    if custom is not None:
        report, seconds, leaves = check.checked_function(*custom)
        return Result(check.document(report, seconds, leaves), report)
    primitive, values, params = check.call(session, args["primitive"])
    report, seconds = check.checked(primitive, values, params)
    return Result(check.document(report, seconds, values), report)


COMMANDS: tuple[Command, ...] = (
    Command(
        "rules",
        (
            Param("primitives", "text", "names of primitives, such as sin"),
            Param("missing", "flag", "list missing rules, with the reasons"),
            Param("full", "flag", "show the whole source of long rules"),
        ),
        "The rules of primitives: the matrix of primitives and interpreters, or one primitive's rules with source.\n\n"
        "Without a name, the matrix has all primitives, including yours. With one name, each rule is shown with its "
        "file, line and source.",
        "%rules sin",
        run_rules,
        group="programs",
    ),
    Command(
        "check",
        (
            Param(
                "primitive",
                "text",
                "a primitive, or a call of one such as mul(2.0, f32[3]), or of your custom_jvp or custom_vjp function",
                required=True,
            ),
        ),
        "Test the rules of a primitive against each other, for authors of rules.\n\n"
        "The value is compared with the types and with the compiled program, jvp with finite differences, the "
        "transpose with jvp by inner products, vmap with a loop, second derivatives with first derivatives. A failed "
        "check is shown with the smallest operands that make it fail. Operands are values or types (f32[3]); "
        "parameters are given by name. Without operands, %check tries common ones. The rule of a custom_jvp or "
        "custom_vjp function is compared with finite differences of the function itself.",
        "%check sin(0.5)",
        run_check,
        group="programs",
    ),
)
