"""Numbers from outside: what is not finite becomes None before it goes anywhere."""

import math

LARGEST = 1e15
"""No count, rate or time of a benchmark is larger; what is, is damage."""


def finite(value: object) -> float | None:
    """Return a finite number of sane size, None for everything else: NaN, Infinity, text, booleans, huge integers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return float(value) if -LARGEST <= value <= LARGEST else None
    return value if math.isfinite(value) and abs(value) <= LARGEST else None


def non_negative(value: object) -> float | None:
    """Return a finite number that is zero or more, else None; some tools write -1 for absent."""
    number = finite(value)
    return None if number is None or number < 0 else number


def count(value: object) -> int | None:
    """Return a whole number that is zero or more, else None."""
    number = non_negative(value)
    return None if number is None or number != int(number) else int(number)


def divided(numerator: float | None, denominator: float | None) -> float | None:
    """Return a quotient, None when a part is absent, the denominator is not positive, or the quotient is damage."""
    if numerator is None or denominator is None or denominator <= 0:
        return None
    return finite(numerator / denominator)
