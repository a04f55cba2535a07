# ruff: noqa: F821, PLW0603, SIM, RET, E731, UP, C4, PERF, B, F841, PIE
# mypy: disable-error-code="name-defined, attr-defined"
"""Functions to disassemble and reconstruct. When they run, their globals and arguments are recorders."""


def straight(a, b):
    c = a.x(b.y, 1)
    d = b.z[c]
    return c.w(d, key=a)


def inlined(a, b):
    return f(a.x, g(b.y), a.z)(b)


def statements_between(a):
    first = a.one
    a.two()
    second = a.three
    return first(second, first)


def swapped(a, b):
    a, b = b, a
    a.x = b
    a, b = a.y, b.y
    return [a, b]


def reassigned(a):
    a = a.x
    a = a.y
    b = a
    a = a.z
    return b(a)


def deleted(a):
    b = a.x
    del a
    c = b.y
    del b
    return c


def items(a, b):
    a[b] = a[b.x]
    a["key"][0] = b
    del a[b]
    a.x = a.y = b.z
    del a.x
    return a[1:b], a[::2]


def inplace(a, b):
    a += b.x
    a.y *= b
    a[b] += 1
    return a


def aliased(a):
    held = [a.x]
    other = held
    a.keep(held, other)
    return held


def own_lists(a):
    held = [a, 1]
    other = [held, held]
    other[0] = a.x
    del other[0]
    return other[0], held[0], [*held, 3]


def starred(a, b):
    return a(*b, 1, *b.x, key=2, **b.y)


def starred_alone(a, *args, **kwargs):
    return a(*args, **kwargs), a(*args), a(*[*args])


def displays(a, b):
    return {"x": a.x, "y": [b, (a, 1)], 3: b.z}, (1, 2), [1, 2, 3], {a.k: b.k}


def dict_spread(a, b):
    return {"x": 1, **a.y, "z": b}


def keyword_only(a, *, b, c):
    return a(b, c=c)


def tensor_if(a, b):
    x = a.run(b)
    if x.any():
        return resume_one(x, b)
    return resume_two(b, x)


def nested_if(a):
    if a.x:
        if not a.y:
            return a.z
        a.w = 1
    elif a in b:
        a.v = 2
    return a.u


def joined(a, b):
    c = a.x if b else a.y
    d = (a and b) or c
    return c(d)


def compared(a, b):
    return a < b, a is None, a is not b, a not in b, not a, a == 1


def chained(a, b):
    return a < b < a.x


def is_none(a):
    if a is None:
        return 1
    if a.x is not None:
        return a.y
    return None


def texts(a, b):
    return f"{a}: {b!r:>{a}} {a.x:4}"


def constants(a):
    return a(-1, 1.5, -0.0, "it's\n", b"x", None, True, ..., 1e400, 2j, (1, (2, "3")))


def contains_set(a):
    return len("x") in {1, 2, 3}


def unpacked(a):
    b, (c, d) = a.x, a.y
    e, *f = a.z
    return b, c, d, e, f


def loop(a, b):
    for each in a.items:
        b.use(each)
    return b


def loop_pairs(a, b):
    for key, value in pairs(a, b):
        if key:
            continue
        b.set(key, value.x)
    a.done()


def loop_left(a):
    for each in a:
        if each.x:
            return each
    return a.y


def nested_loops(a):
    for x in a:
        for y in x.y:
            a.z(y)


def global_store(a):
    global STEP
    STEP = a.x
    return STEP


def with_finally(a):
    a.start()
    try:
        b = a.x(1)
    finally:
        a.stop(None)
    return b.y


def caught(a):
    try:
        b = a.x()
    except Boom:
        return a.failed
    return b


def caught_as(a):
    try:
        a.x()
    except ValueError as error:
        return error
    return a.y


def cleaned(a):
    try:
        a.x()
    except:
        a.undo()
        raise
    return a.y


def falls_through(a):
    try:
        a.x()
    except Boom:
        a.note()
    return a.y


def two_finally(a, b):
    try:
        a.x()
        try:
            c = b.y()
        finally:
            b.close()
        c.z()
    finally:
        a.close()
    return c


def finally_in_except(a):
    try:
        try:
            b = a.x()
        finally:
            a.y()
    except Boom:
        return a.z
    return b


def holds_itself(a):
    held = [a.x]
    held[0:] = [1, held, a]
    return held


def raises(a):
    if a.x:
        raise ValueError(a.y)
    return a


def raised_from(a):
    raise ValueError("x") from a.y


def with_lambda(a):
    return a(lambda x, y=a.z: x.w(y, a), a.v)


def inner_function(a):
    def helper(x=None, *, key=1):
        """Say what it does."""
        return x(key, a)

    return helper


def own_cell(a):
    count = a.x

    def add():
        nonlocal count
        count = count + 1
        return count

    a.run(add)
    return count


def long_arguments(a, b):
    a.enter()
    fn = a.fn
    p = a.p["weight"]
    q = a.p["bias"]
    a.exit(p)
    out = fn(p, q, b)
    return out[0], out[1]


def _closures():
    scale = None
    count = None

    def reads(a):
        return a(scale, scale.x)

    def writes(a):
        nonlocal count
        count = a.x
        return count

    def hands_on(a):
        return a(lambda: scale.y, count)

    return [reads, writes, hands_on]


CASES = [made for name, made in list(globals().items()) if callable(made) and not name.startswith("_")] + _closures()
