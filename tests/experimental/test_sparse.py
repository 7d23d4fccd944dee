"""``minijax.experimental.sparse``: computations with stored elements, compared with JAX."""

import jax
import numpy as np
import pytest
from jax.experimental import sparse as jax_sparse

import minijax as mj
from minijax.experimental import sparse

pytestmark = pytest.mark.usefixtures("compiled_quickly")

DENSE = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5]], np.float32)
ROW = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


# name -> function of (library, its sparse module, DENSE as its BCOO)
CALLS = {
    "matrix by vector": lambda ns, sp, m: m @ ns.numpy.asarray(ROW),
    "jit": lambda ns, sp, m: ns.jit(lambda m, x: (m @ x, m.T))(m, ns.numpy.asarray(ROW)),
    "grad of the stored elements": lambda ns, sp, m: sp.grad(lambda m, x: ((m @ x) ** 2).sum(), (0, 1))(
        m, ns.numpy.asarray(ROW)
    ),
    "sparsify": lambda ns, sp, m: sp.sparsify(lambda m, x: 2 * ns.numpy.sin(m.T) @ x)(m, ns.numpy.ones(3)),
    "jaxpr": lambda ns, sp, m: str(ns.make_jaxpr(lambda m, x: m @ x)(m, ns.numpy.asarray(ROW))),
    "printed": lambda ns, sp, m: [repr(m), repr(sp.BCSR.from_bcoo(m)), m.nse, m.dtype, m.size, m.ndim, len(m)],
}


def parts(lib, out):
    """The leaves of ``out``, and the classes and shapes of its sparse arrays."""
    about = []
    kinds = (sparse.JAXSparse, jax_sparse.JAXSparse)
    for x in lib.tree.leaves(out, is_leaf=lambda x: isinstance(x, kinds)):
        if isinstance(x, kinds):
            about.append((type(x).__name__, x.shape, x.indices_sorted, x.unique_indices))
        about += lib.tree.leaves(x)
    return about


@pytest.mark.parametrize("name", CALLS)
def test_computations_with_stored_elements_match_jax(name):
    ours = CALLS[name](mj, sparse, sparse.BCOO.fromdense(mj.numpy.asarray(DENSE)))
    theirs = CALLS[name](jax, jax_sparse, jax_sparse.BCOO.fromdense(DENSE))
    found, wanted = parts(mj, ours), parts(jax, theirs)
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        if isinstance(y, jax.Array):
            assert isinstance(x, mj.Array) and (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, rtol=2e-6)
        else:
            assert x == y
