"""The name that a wrong one probably means."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, names: Iterable[str], cutoff: float) -> str:
    """The one of `names` that is spelt most like `name`, whatever the case; "" if none is like it by `cutoff`."""
    folded = {each.casefold(): each for each in names}
    near = get_close_matches(name.casefold(), list(folded), 1, cutoff)
    return folded[near[0]] if near else ""
