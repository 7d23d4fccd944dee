"""The PJRT layer: buffers keep their values, programs run, errors have messages, and jax stays unimported.

The client depends on whether jax is imported, and other tests import jax. So tests that need jax, or need its absence,
run in fresh processes (``in_fresh_process``). The other tests hold for both clients.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

from minijax.backend import client as backend_client
from minijax.backend import failures
from minijax.backend import pjrt as backend
from minijax.core.avals import ShapedArray
from minijax.errors import JaxRuntimeError

DTYPES = [
    np.dtype(name)
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
    ).split()
] + [np.dtype(t) for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4)]


def module(body: str, args: str, results: str, name: str = "jit_f", attributes: str = "") -> str:
    """The text of a module whose @main has the given signature and body."""
    main = f"func.func public @main({args}) -> ({results}) {{\n{body}\n}}"
    return f"module @{name} {attributes} {{\n{main}\n}}\n"


def sine(n: int = 8, attribute: str = "") -> str:
    t = f"tensor<{n}xf32>"
    return module(f"    %0 = stablehlo.sine %a : {t}\n    return %0 : {t}", f"%a: {t} {attribute}", t)


def in_fresh_process(code: str, **environment: str) -> str:
    """Run code in a new interpreter with the same import path; return its standard output."""
    env = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS")}
    env |= {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | environment
    preamble = "import sys\nimport numpy as np\nfrom minijax.backend import failures, pjrt as backend\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- buffers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)], ids=str)
def test_a_round_trip_keeps_the_value(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    value = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    buffer = backend.put(value)
    assert buffer.aval is ShapedArray(shape, dtype)
    fetched = backend.to_numpy(buffer)
    assert (fetched.shape, fetched.dtype) == (shape, dtype)
    assert fetched.tobytes() == value.tobytes()
    assert not fetched.flags.writeable
    with pytest.raises(ValueError):
        fetched.flags.writeable = True


@pytest.mark.parametrize(
    "value",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.broadcast_to(np.float32(3), (2, 5)),
        np.float32(2.5),
        np.arange(3, dtype=">f8"),
        np.arange(6, dtype=">i4").reshape(2, 3).T,
    ],
    ids=["transposed", "reversed", "broadcast", "scalar", "big-endian", "big-endian transposed"],
)
def test_put_accepts_any_layout(value: np.ndarray) -> None:
    fetched = backend.to_numpy(backend.put(value))
    assert fetched.dtype.isnative
    np.testing.assert_array_equal(fetched, value)


@pytest.mark.parametrize("n", [4, 1_000_000])
def test_put_does_not_alias_the_array_of_the_user(n: int) -> None:
    """``value`` begins at a multiple of 64 bytes, where PJRT may use memory without a copy."""
    raw = np.zeros(n + 16, np.float32)
    offset = (-raw.ctypes.data % 64) // 4
    value = raw[offset : offset + n]
    assert value.ctypes.data % 64 == 0
    buffer = backend.put(value)
    value[:] = 7
    assert not backend.to_numpy(buffer).any()


def test_owned_arrays_are_not_copied_on_a_host() -> None:
    if backend.platform() != "cpu":
        pytest.skip(f"zero-copy concerns host memory; this is {backend.platform()}")
    raw = np.zeros(1024 + 16, np.float32)
    offset = (-raw.ctypes.data % 64) // 4
    value = raw[offset : offset + 1024]
    assert np.shares_memory(backend.to_numpy(backend.put(value, owned=True)), value)


def test_a_fetched_view_outlives_its_buffer() -> None:
    fetched = [backend.to_numpy(backend.put(np.full(1000, i, np.float32))) for i in range(20)]
    assert [int(f[500]) for f in fetched] == list(range(20))
    halves = [backend.to_numpy(backend.put(np.full(1000, i, ml_dtypes.bfloat16))) for i in range(20)]
    assert [int(f[500]) for f in halves] == list(range(20))


def test_a_deleted_buffer_cannot_be_used() -> None:
    buffer = backend.put(np.arange(3))
    assert not buffer.is_deleted()
    buffer.delete()
    assert buffer.is_deleted()
    with pytest.raises(failures.DeletedArrayError, match=r"(?s)deleted with shape=int64\[3\].*donate"):
        backend.to_numpy(buffer)
    with pytest.raises(JaxRuntimeError, match="deleted"):
        backend.block_until_ready(buffer)


@pytest.mark.parametrize(
    "value", [np.array(["a"]), np.array([object()]), np.zeros(2, "M8[s]")], ids=["string", "object", "time"]
)
def test_put_refuses_unsupported_values(value: np.ndarray) -> None:
    with pytest.raises(TypeError, match="cannot be put on a device"):
        backend.put(value)


def test_put_refuses_a_foreign_device() -> None:
    with pytest.raises(ValueError, match="not a local device"):
        backend.put(np.zeros(3), device="nowhere")


# --- programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, str.encode], ids=["str", "bytes"])
def test_a_compiled_program_runs(kind) -> None:
    program = backend.compile(kind(sine()), name="f")
    value = np.arange(8, dtype=np.float32)
    (result,) = program.execute([backend.put(value)])
    assert backend.block_until_ready(result) is result
    np.testing.assert_allclose(backend.to_numpy(result), np.sin(value), rtol=1e-6)
    assert result.aval is ShapedArray((8,), np.dtype(np.float32)) is program.out_avals[0]


def test_out_avals_are_read_back_from_the_program() -> None:
    types = "tensor<i1>, tensor<2x3xbf16>, tensor<0xcomplex<f32>>, tensor<4xui8>"
    args = ", ".join(f"%{i}: {t}" for i, t in enumerate(types.split(", ")))
    program = backend.compile(module(f"return %0, %1, %2, %3 : {types}", args, types), name="f")
    assert [a.str_short() for a in program.out_avals] == ["bool[]", "bf16[2,3]", "c64[0]", "u8[4]"]
    assert backend.compile(module("return", "", ""), name="f").execute([]) == []
    weak = ShapedArray((8,), np.dtype(np.float32), True)
    program = backend.compile(sine(), name="f", out_avals=[weak])
    assert program.execute([backend.put(np.zeros(8, np.float32))])[0].aval is weak


@pytest.mark.parametrize("attribute", ["{tf.aliasing_output = 0 : i32}", "{jax.buffer_donor = true}"])
def test_donation_deletes_the_argument(attribute: str) -> None:
    program = backend.compile(sine(1024, attribute), name="f")
    assert program.memory_analysis().alias_size_in_bytes == 4096
    donated = backend.put(np.ones(1024, np.float32))
    (result,) = program.execute([donated])
    assert donated.is_deleted()
    np.testing.assert_allclose(backend.to_numpy(result), np.sin(np.ones(1024)), rtol=1e-6)
    with pytest.raises(
        failures.DeletedArgumentError, match=r"(?s)deleted with shape=float32\[1024\].*argument 0 of f.*donate"
    ):
        program.execute([donated])


def test_donation_never_changes_a_live_view() -> None:
    program = backend.compile(sine(1024, "{tf.aliasing_output = 0 : i32}"), name="f")
    donated = backend.put(np.ones(1024, np.float32))
    view = backend.to_numpy(donated)
    (result,) = program.execute([donated])
    assert (view == 1).all()
    np.testing.assert_allclose(backend.to_numpy(result), np.sin(np.ones(1024)), rtol=1e-6)


def test_a_program_has_analyses() -> None:
    program = backend.compile(sine(), name="f")
    assert program.cost_analysis()["transcendentals"] == 8
    memory = program.memory_analysis()
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (32, 32)
    assert memory.temp_size_in_bytes >= 0 and memory.generated_code_size_in_bytes >= 0
    text = program.hlo_text()
    assert text.startswith("HloModule jit_f") and "sine(" in text
    assert repr(program) == "<Executable f -> (f32[8])>"


# --- errors -------------------------------------------------------------------------------------------------


def test_compile_errors_carry_the_message_of_xla() -> None:
    with pytest.raises(
        failures.CompileError, match=r"(?s)could not compile my_program.*'stablehlo.nonsense' is unknown"
    ):
        backend.compile(sine().replace("sine", "nonsense"), name="my_program")
    with pytest.raises(JaxRuntimeError, match="(?s)could not compile f.*nowhere_registered"):
        t = "tensor<3xf32>"
        call = f"%0 = stablehlo.custom_call @nowhere_registered(%a) {{api_version = 4 : i32}} : ({t}) -> {t}"
        backend.compile(module(f"{call}\nreturn %0 : {t}", f"%a: {t}", t), name="f")


def test_execution_errors_name_the_program() -> None:
    program = backend.compile(sine(), name="f")
    good = backend.put(np.zeros(8, np.float32))
    with pytest.raises(failures.ExecutionError, match="(?s)running f.*2 arguments but compiled program expected 1"):
        program.execute([good, good])
    with pytest.raises(failures.ExecutionError, match=r"(?s)running f.*f32\[9\]"):
        program.execute([backend.put(np.zeros(9, np.float32))])


def test_out_of_memory_is_a_memory_error() -> None:
    t = "tensor<1099511627776x1000xf32>"
    lines = (
        "%c = stablehlo.constant dense<1.0> : tensor<f32>",
        f"%0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {t}",
        f"return %0 : {t}",
    )
    with pytest.raises(failures.DeviceOutOfMemoryError, match="(?s)out of memory.*RESOURCE_EXHAUSTED") as caught:
        backend.compile(module("\n".join(lines), "", t), name="f").execute([])
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, JaxRuntimeError)


# --- fresh processes ----------------------------------------------------------------------------------------

EVERYTHING = f"""
import ml_dtypes
program = backend.compile({sine()!r}, name="f")
(result,) = program.execute([backend.put(np.ones(8, np.float32))])
backend.block_until_ready(result)
assert abs(backend.to_numpy(result)[0] - np.sin(1)) < 1e-6
assert not result.is_deleted()
for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
    assert backend.to_numpy(backend.put(np.arange(6).reshape(2, 3).astype(dtype)))[1, 2] == 5
from minijax import jit, numpy as jnp
sine, add = jit(jnp.sin), jit(lambda tree: tree["x"] + tree["y"])
for _ in range(3):
    assert abs(float(sine(np.ones(8, np.float32))[0]) - np.sin(1)) < 1e-6
    assert float(add(dict(x=sine(1.0), y=sine(1.0)))) == 2 * float(sine(1.0))
program.cost_analysis(), program.memory_analysis(), program.hlo_text(), program.out_avals
backend.platform(), backend.devices()
result.delete()
for wrong in (lambda: backend.to_numpy(result), lambda: program.execute([result]), lambda:
program.execute([])):
    try:
        wrong()
    except (failures.ExecutionError, failures.DeletedArrayError):
        pass
    else:
        raise AssertionError("no error")
"""


def test_importing_the_backend_imports_neither_jaxlib_nor_jax() -> None:
    assert in_fresh_process("print([m for m in ('jax', 'jaxlib') if m in sys.modules])") == "[]"


def test_jax_is_not_imported() -> None:
    if backend_client.plugin_installed():
        pytest.skip("a PJRT plugin is installed: only jax can start it")
    assert in_fresh_process(EVERYTHING + "print('jax' in sys.modules)") == "False"
    assert in_fresh_process(EVERYTHING + "print('jax' in sys.modules)", JAX_PLATFORMS="cpu") == "False"


def test_the_backend_works_with_the_client_of_jax() -> None:
    out = in_fresh_process(
        "import jax\njax.numpy.zeros(3)\n" + EVERYTHING + "print(backend.local_devices() == jax.local_devices())"
    )
    assert out == "True"


def test_the_backend_works_when_jax_is_imported_later() -> None:
    out = in_fresh_process(
        EVERYTHING
        + "import jax\n"
        + EVERYTHING
        + "print(jax.jit(jax.numpy.sin)(backend.to_numpy(backend.put(np.zeros(2)))))"
    )
    assert out == "[0. 0.]"


def test_the_error_names_an_unknown_platform() -> None:
    out = in_fresh_process(
        """
        try:
            backend.platform()
        except RuntimeError as error:
            print(error)
        """,
        JAX_PLATFORMS="gpux",
    )
    assert "gpux" in out


@pytest.mark.parametrize("first", ["", "import jax"], ids=["jaxlib alone", "with jax"])
def test_buffers_and_programs_lie_on_the_chosen_device(first: str) -> None:
    out = in_fresh_process(
        f"""
        {first}
        one, two = devices = backend.local_devices()
        moved = backend.put(np.arange(3), two)
        assert backend.buffer_device(moved) is two
        back = backend.transfer(moved, one)
        assert backend.buffer_device(back) is one and backend.to_numpy(back)[2] == 2

        on_two = backend.compile({sine()!r}, name="f", device=two)
        ones = np.ones(8, np.float32)
        (result,) = on_two.execute([backend.put(ones, two)])
        assert backend.buffer_device(result) is two
        assert abs(backend.to_numpy(result)[0] - np.sin(1)) < 1e-6

        print('jax' in sys.modules)
        """,
        JAX_NUM_CPU_DEVICES="2",
        JAX_PLATFORMS="cpu",
    )
    assert out == str(bool(first))


CHOLESKY = module(
    """
    %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {
      backend_config = {uplo = 76 : ui8}, api_version = 4 : i32,
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
      result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
    } : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
    return %0#0 : tensor<2x2xf32>""",
    "%a: tensor<2x2xf32>",
    "tensor<2x2xf32>",
)


@pytest.mark.parametrize("before", ["", "import jax"], ids=["jaxlib alone", "with jax"])
def test_lapack_is_registered_when_needed(before: str) -> None:
    out = in_fresh_process(
        f"""
        {before}
        value = np.array([[4, 2], [2, 5]], np.float32)
        (result,) = backend.compile({CHOLESKY!r}, name="cholesky").execute([backend.put(value)])
        np.testing.assert_allclose(np.tril(backend.to_numpy(result)), np.linalg.cholesky(value), rtol=1e-6)
        import jax  # registers the same functions once more
        np.testing.assert_allclose(jax.numpy.linalg.cholesky(value), np.linalg.cholesky(value), rtol=1e-6)
        print("ok")
        """,
        JAX_PLATFORMS="cpu",
    )
    assert out == "ok"


def test_threads_share_one_client() -> None:
    out = in_fresh_process(
        f"""
        import threading
        seen = []
        def work():
            program = backend.compile({sine()!r}, name="f")
            (result,) = program.execute([backend.put(np.zeros(8, np.float32))])
            seen.append((id(program.loaded.client), float(backend.to_numpy(result).sum())))
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(len(seen), len(set(seen)))
        """
    )
    assert out == "4 1"
