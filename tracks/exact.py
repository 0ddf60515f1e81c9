"""An exact number: what a decimal says, not its nearest double; so a limit holds to the sample."""

from fractions import Fraction

from tracks.errors import RuleError


def exact(value: object, name: str) -> Fraction:
    """The decimal that was written (0.29 is 29/100, not 0.28999...), or a clear refusal."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleError(f"{name} must be a number, got {value!r}")
    try:
        return Fraction(str(float(value)) if isinstance(value, float) else value)
    except (ValueError, OverflowError):
        raise RuleError(f"{name} must be a finite number, got {value!r}") from None


def exact_rate(rate: object) -> Fraction:
    """A sampling rate in Hz."""
    value = exact(rate, "rate")
    if value <= 0:
        raise RuleError(f"rate must be above 0 Hz, got {rate!r}")
    return value
