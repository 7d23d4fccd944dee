"""``%keys`` reports the random keys that a program uses more than once, under every transformation."""

import jax as real_jax
import numpy as np
import pytest

import minijax.numpy as jnp
from minijax import checkpoint, grad, jit, lax, random, vmap
from minijax.tools.documents.document import plain
from minijax.tools.explain import keys
from minijax.tools.explain.keys import find_reused
from minijax.tools.explain.keys_view import keys_document


def twice(key):
    return random.normal(key) + random.uniform(key)


def in_scan(key):
    return lax.scan(lambda c, i: (c + random.normal(key), i), 0.0, jnp.arange(3))[0]


def in_while(key):
    return lax.while_loop(lambda c: c < 2.0, lambda c: c + 1 + 0 * random.uniform(key), 0.0)


def in_branch(key):
    return lax.cond(key_is_even(key), lambda k: random.normal(k), lambda k: random.gumbel(k), key) + random.cauchy(key)


def key_is_even(key):
    return random.key_data(key)[0] % 2 == 0


def by_value(key):
    return random.bits(key) if float(random.uniform(key)) < 2 else random.bits(random.key(0))


def split_twice(key):
    return random.normal(random.split(key)[0]), random.normal(random.split(key)[0])


def folded(key):
    return [random.normal(random.fold_in(key, i)) for i in (1, 2)]


def carried(key):
    def step(key, i):
        key, subkey = random.split(key)
        return key, random.poisson(subkey, 3.0)

    return lax.scan(step, key, jnp.arange(3))


def cloned(key):
    return random.normal(key), random.normal(random.clone(key))


def checkpointed(key):
    return grad(checkpoint(lambda x: jnp.sin(x * random.normal(key))))(2.0)


def rows_in_while(key):
    """Finished elements of a batched loop still run, with keys that they have used. This is not reported as reuse."""

    def turn(carry):
        i, key = carry
        key, subkey = random.split(key)
        return i + 1 + 0 * random.randint(subkey, (), 0, 2), key

    return vmap(lambda n, k: lax.while_loop(lambda c: c[0] < n, turn, (0, k)))(jnp.arange(1, 4), random.split(key, 3))


# function of a key -> (number of keys that it uses; for each reused key, the functions that use it)
CASES = {
    twice: (1, [["normal", "uniform"]]),
    jit(twice): (1, [["normal", "uniform"]]),
    in_scan: (1, [["normal"] * 3]),
    jit(in_scan): (1, [["normal"] * 3]),
    in_while: (1, [["uniform"] * 2]),
    in_branch: (1, [["normal", "cauchy"]]),
    by_value: (1, [["uniform", "bits"]]),
    split_twice: (2, [["split", "split"], ["normal", "normal"]]),
    folded: (2, []),
    carried: (6, []),
    cloned: (1, []),
    checkpointed: (1, []),
    rows_in_while: (13, []),
}


def summary(search):
    return len(search.uses), [[use.what for use in search.uses[words]] for words in search.reused]


@pytest.mark.parametrize(("function", "raw"), [*[(each, False) for each in CASES], (twice, True), (carried, True)])
def test_the_uses_of_each_key_are_found(function, raw):
    key = random.PRNGKey(4) if raw else random.key(4)
    assert summary(find_reused(function, (key,), {})) == CASES[function]


def test_each_element_of_a_batch_is_a_key():
    count, reused = summary(find_reused(lambda key: vmap(twice)(random.split(key, 3)), (random.key(4),), {}))
    assert (count, reused) == (4, [["normal", "uniform"]] * 3)
    search = find_reused(lambda x, k: grad(lambda x: random.gamma(k, x) + random.t(k, x))(x), (2.0, random.key(4)), {})
    assert summary(search) == (1, [["gamma", "t"]])


def test_equal_keys_from_split_and_fold_in_are_reported():
    """In JAX ``split(key)[1]`` and ``fold_in(key, 1)`` are the same key."""
    search = find_reused(
        lambda key: random.normal(random.split(key)[1]) + random.normal(random.fold_in(key, 1)), (random.key(0),), {}
    )
    assert np.array_equal(
        *(
            real_jax.random.key_data(k)
            for k in (
                real_jax.random.split(real_jax.random.key(0))[1],
                real_jax.random.fold_in(real_jax.random.key(0), 1),
            )
        )
    )
    shown = plain(keys_document(search, "it"), 100)
    assert "used twice: key → split [1] = fold_in 1" in shown


def test_two_uses_of_a_cloned_key_are_shown():
    shown = plain(keys_document(find_reused(cloned, (random.key(4),), {}), "cloned(key)"), 120)
    assert "none: cloned(key) uses 1 random key, once or as often as random.clone allows" in shown
    assert "key  used by normal  twice, as random.clone allows" in shown


def test_the_report_lists_the_uses_of_each_key():
    shown = plain(keys_document(find_reused(split_twice, (random.key(4),), {}), "split_twice(key)"), 120)
    here = split_twice.__code__.co_firstlineno + 1
    assert shown.splitlines()[0] == "used twice: key"
    assert f"test_explain_keys.py:{here}:" in shown and "return random.normal(random.split(key)[0])" in shown
    assert shown.splitlines()[-2:] == ["  key  used by split  twice", "    split [0]  used by normal  twice"]
    shown = plain(keys_document(find_reused(in_scan, (random.key(4),), {}), "in_scan(key)"), 120)
    assert "normal 3 times at" in shown and "scan, iteration 0 of 3" in shown
    shown = plain(keys_document(find_reused(vmap(twice), (random.split(random.key(4), 3),), {}), "it"), 120)
    assert "used twice: key[0], and 2 more like it" in shown
    assert "none: it uses 2 random keys, each of them once" in plain(
        keys_document(find_reused(folded, (random.key(4),), {}), "it"), 120
    )


def test_keys_past_the_bound_are_counted(monkeypatch):
    monkeypatch.setattr(keys, "MOST_KEYS", 2)
    search = find_reused(lambda key: vmap(random.normal)(random.split(key, 3)), (random.key(4),), {})
    assert search.unseen == 2  # only the key that is split, and its first child, are seen
    assert "first 2 keys were tracked: 2 uses of later keys were not seen" in plain(keys_document(search, "it"), 100)
