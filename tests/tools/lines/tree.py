GOOD = (
    ("p = {'l1': {'w': jnp.ones((4, 8)), 'b': jnp.zeros(8)}, 'n': (jnp.arange(3), None, 'name')}", ()),
    ("%tree p", ("dict of 2", "4", "['w']", "f32[4,8]", "norm 5.657", "all 1", "[0, 1, 2]", "None", "'name'")),
    ("%tree p --depth 1", ("['l1']  dict of 2", "2 arrays, 40 elements", "%tree p --depth 2")),
    ("%tree p --leaf ['l1']['w']", ("['w']", "f32[4,8]", "Array([[1., 1., 1., 1.")),
    ('%tree p --leaf ["n"]', ("tuple of 3", "[0, 1, 2]")),
    ("%tree [v * i for i in range(50)] --most 10", ("list of 50", "[8]", "41 more lines (41 arrays, 123 elements)")),
    ("%tree v", ("f32[3]", "[0., 1., 2.]")),
    ("%tree p --exact", ("norm 5.657",)),
    ("%shards v", ("f32[3] on 1 device", "all of it on one", "12 B on each device", "│  CPU 0  │")),
    (
        "%shards minijax.device_put(jnp.ones((4, 2)), minijax.NamedSharding(minijax.make_mesh((2,), ('i',)), "
        "minijax.P('i')))",
        ("2 devices · 2 parts", "P('i',) over a mesh of i=2", "16 B on each device, 32 B in all", "CPU 1"),
    ),
    # arrays that were resharded from one device; the second one is resharded back
    (
        "%shards minijax.sharding.reshard(jnp.ones((4, 2)), minijax.NamedSharding(minijax.make_mesh((2,), ('i',)), "
        "minijax.P(unreduced={'i'})))",
        ("f32[4,2]{U:i} on 2 devices · a sum of 2 terms", "of the values along i", "32 B on each device"),
    ),
    (
        "%tree [minijax.sharding.reshard(minijax.sharding.reshard(v, minijax.NamedSharding(mesh, spec)), "
        "minijax.NamedSharding(mesh, minijax.P())) for mesh in [minijax.make_mesh((2,), ('i',))] "
        "for spec in [minijax.P(unreduced={'i'})]] --leaf [0]",
        ("f32[3]", "[0., 1., 2.]"),
    ),
    # an array of JAX stays on the device where JAX has put it
    (
        "%shards __import__('jax').device_put(__import__('jax').numpy.ones((2, 3)), __import__('jax').devices()[1])",
        ("f32[2,3] on 1 device", "24 B on each device", "│  CPU 1  │"),
    ),
    ("%shards p", ("['l1']['w']", "f32[4,8]", "128 B", "all of it on one")),
)

BAD = (
    ("%tree v --leaf ['x']", "there is nothing at ['x'] in v"),
    ("%tree {'abc': v} --leaf ['abd']", "Did you mean ['abc']?"),
    ("%tree f", "f is of type function, which holds no arrays: %tree f(3.0) shows its result"),
    ("%tree (i for i in [v])", "is of type generator, which holds no arrays: %tree list((i for i in [v])) shows"),
    ("%tree v --depth 0", "--depth needs a number from 1, not 0"),
    ("%shards f", "f is of type function, and only arrays are on devices: %shards f(x) shows where its result is"),
    ("%shards jit(f)", "%hlo jit(f)(x) --partitioned what each device does"),
    ("%shards 'v'", "'v' is of type str, which has nothing on a device"),
)
