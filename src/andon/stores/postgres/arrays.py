"""Arrays of numbers as text, which the server reads as it reads a literal.

Of each element of an array the driver asks whether it is an array itself, by an `isinstance` with
an abstract class: 100 numbers cost 38 us of this process's time as an array, and 14 as text.
"""

from collections.abc import Sequence


def numbers(values: Sequence[int | None]) -> str:
    """What `$n::text::bigint[]` takes."""
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"
