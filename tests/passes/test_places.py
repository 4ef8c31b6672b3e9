"""Sets of places answer as their paths do one by one."""

import itertools
import random

from quantdsl.passes.places import Path, PathSet, overlap

ROOTS, STEPS = ("s", "t"), ("a", "b", 0, 1, None)


def drawn(rng: random.Random) -> Path:
    return (rng.choice(ROOTS), *rng.choices(STEPS, k=rng.randrange(4)))


def may_meet(one: Path, other: Path) -> bool:
    """An unknown index may be any, but is no field."""
    return all(
        a == b or (None in (a, b) and not isinstance(a, str) and not isinstance(b, str))
        for a, b in zip(one, other, strict=False)
    )


def test_paths_overlap_where_no_step_is_another() -> None:
    steps = [path for n in range(3) for path in itertools.product(STEPS, repeat=n)]
    for one, other in itertools.product(steps, repeat=2):
        assert overlap(("s", *one), ("s", *other)) == may_meet(one, other)


def test_a_set_meets_what_one_of_its_paths_overlaps() -> None:
    rng = random.Random(1)
    for _ in range(300):
        taken, others = ([drawn(rng) for _ in range(rng.randrange(5))] for _ in range(2))
        paths = PathSet(taken)
        for path in taken:
            assert paths.meets(path)
        assert len(paths) == len({*taken})
        for asked in (drawn(rng) for _ in range(20)):
            assert paths.meets(asked) == any(may_meet(asked, one) for one in taken)
        paths.update(PathSet(others))
        for asked in (drawn(rng) for _ in range(20)):
            assert paths.meets(asked) == any(may_meet(asked, one) for one in taken + others)
        assert len(paths) == len({*taken, *others})
