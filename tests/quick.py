"""The quick tests: files that touch every package in under a minute, ``python -m pytest -m quick -n 2``.

For the loop of whoever changes something; what a package's own tests are is found beside them.
"""

from __future__ import annotations

# package -> files of tests, below this folder
QUICK: dict[str, tuple[str, ...]] = {
    "minijax": ("test_config.py", "test_errors.py"),
    "minijax.api": ("api/test_misses.py", "api/test_jit.py"),
    "minijax.backend": ("api/test_jit.py",),
    "minijax.core": ("core/test_named.py", "core/test_operands.py", "core/test_provenance.py"),
    "minijax.example_libraries": ("interop/test_example_libraries.py",),
    "minijax.experimental": ("ops/test_callback.py",),
    "minijax.experimental.checkify": ("experimental/test_checkify.py",),
    "minijax.experimental.jet": ("experimental/test_jet.py",),
    "minijax.experimental.ode": ("experimental/test_ode.py",),
    "minijax.extend": ("extend/test_rule_matrix.py",),
    "minijax.extend.mlir": ("extend/test_mlir.py",),
    "minijax.interpreters": ("interpreters/test_program.py", "interpreters/test_debug_nans.py"),
    "minijax.interop": ("interop/test_from_jax.py",),
    "minijax.ipython_ext": ("ipython/test_notebook.py",),
    "minijax.ir": ("ir/test_constructs.py", "ir/test_name_stacks.py", "ir/test_doc_table.py"),
    "minijax.lax": ("ops/test_errors.py",),
    "minijax.nn": ("interop/test_names.py",),
    "minijax.lowering": ("lowering/test_places.py",),
    "minijax.numpy": ("numpy/test_operators.py",),
    "minijax.ops": ("ops/test_errors.py", "ops/test_callback.py"),
    "minijax.ops.linalg": ("ops/test_linalg.py",),
    "minijax.ops.special": ("ops/test_special_values.py",),
    "minijax.ops.windows": ("ops/test_errors.py",),
    "minijax.ops.refs": ("ops/test_refs.py",),
    "minijax.pytree": ("test_pytree.py",),
    "minijax.random": ("oracle/test_random.py",),
    "minijax.repl": ("repl/test_history.py",),
    "minijax.repl.stepper": ("repl/test_stepper.py",),
    "minijax.scipy": ("interop/test_names.py",),
    "minijax.scipy.cluster": ("scipy/test_expressions.py",),
    "minijax.scipy.special": ("scipy/test_expressions.py",),
    "minijax.scipy.stats": ("scipy/test_expressions.py",),
    "minijax.tools": ("test_layers.py",),
    "minijax.tools.commands": ("tools/test_targets.py", "tools/test_settings.py"),
    "minijax.tools.compare": ("tools/test_diff.py",),
    "minijax.tools.documents": ("tools/test_document.py", "tools/test_html.py", "tools/test_views.py"),
    "minijax.tools.explain": ("tools/test_explain_nan.py",),
    "minijax.tools.gallery": ("tools/test_gallery.py",),
    "minijax.tools.live": ("tools/test_live.py",),
    "minijax.tools.pages": ("tools/test_export.py",),
    "minijax.tools.programs": ("tools/test_links.py", "tools/test_source.py"),
    "minijax.tools.recording": ("tools/test_golden_recordings.py", "tools/test_recorded_constructs.py"),
    "minijax.tools.session": ("tools/test_session.py", "tools/test_completion.py"),
    "minijax.tools.stepper": ("tools/test_stepping.py", "tools/test_fold.py"),
}
