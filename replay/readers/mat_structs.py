"""Which variables of a MATLAB file, and which fields of its structs, are the recording.

The fields of structs count as variables too, since many files hold no more than one struct. A
variable of the file's own goes before a field of the same name, and a struct with a recording of
its own says nothing about another one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bci_stream.errors import SourceError
from replay.readers.array_layout import DATA_KEYS, LAYOUT_KEYS, data_key
from replay.readers.mat73 import Fields, Variables


class _Choice(NamedTuple):
    """struct: that holds the data; None where they are no field. variable: their name in there.

    struct_first: the user named the struct, so it goes even before the file's own variables.
    """

    struct: str | None
    variable: str | None
    struct_first: bool = False


def recording_in(name: str, variables: Variables, wanted: str | None) -> tuple[Fields, str | None]:
    """The arrays that belong together, and which of them holds the data, where that is known."""
    plain = {key: item for key, item in variables.items() if not isinstance(item, dict)}
    structs = {key: item for key, item in variables.items() if isinstance(item, dict)}
    choice = _choice_of(name, plain, structs, wanted) if wanted else _usual(name, plain, structs)
    if choice is None:  # what is wanted is not there: the error that follows lists all there is
        return plain | _dotted(structs), wanted
    own = structs[choice.struct] if choice.struct else {}
    said = plain | own if choice.struct_first else own | plain
    others = {
        key: fields
        for key, fields in structs.items()
        if key != choice.struct and not _first_data_key(fields) and choice.variable not in fields
    }
    if not wanted:
        _check_agreement(name, others, said)
    return _merged(others) | said, choice.variable


def _usual(name: str, plain: Fields, structs: Mapping[str, Fields]) -> _Choice:
    key = _first_data_key([*plain, *(field for fields in structs.values() for field in fields)])
    if key is None or key in plain:
        return _Choice(None, key)
    return _Choice(_only_holder(name, structs, key), key)


def _choice_of(
    name: str, plain: Fields, structs: Mapping[str, Fields], wanted: str
) -> _Choice | None:
    if wanted in plain:
        return _Choice(None, wanted)
    if wanted in structs:
        field = data_key(f"{name}: {wanted}", structs[wanted])
        return _Choice(wanted, field, struct_first=True)
    struct, _, field = wanted.rpartition(".")
    if field in structs.get(struct, {}):
        return _Choice(struct, field, struct_first=True)
    if _holders(structs, wanted):
        return _Choice(_only_holder(name, structs, wanted), wanted)
    return None


def _first_data_key(names: Iterable[str]) -> str | None:
    held = set(names)
    return next((key for key in DATA_KEYS if key in held), None)


def _only_holder(name: str, structs: Mapping[str, Fields], field: str) -> str:
    holders = _holders(structs, field)
    if len(holders) > 1:
        raise _several(name, holders, field)
    return holders[0]


def _holders(structs: Mapping[str, Fields], field: str) -> list[str]:
    return [struct for struct, fields in structs.items() if field in fields]


def _several(name: str, holders: list[str], field: str) -> SourceError:
    shown = ", ".join(f"{struct}.{field}" for struct in holders[:12])
    return SourceError(
        f"{name}: {len(holders)} of its structs have a field {field!r}: {shown}. Only one can be "
        "meant: say where the data are with ?variable=, which takes a variable, a struct "
        f"(?variable={holders[0]}) or a field of one (?variable={holders[0]}.NAME)"
    )


def _check_agreement(name: str, structs: Mapping[str, Fields], said: Fields) -> None:
    """Refuse structs of which two say what the layout asks for, and nothing before them does."""
    for field in LAYOUT_KEYS:
        holders = _holders(structs, field)
        if len(holders) > 1 and field not in said:
            raise _several(name, holders, field)


def _merged(structs: Mapping[str, Fields]) -> Fields:
    """The fields of all these structs; those of one name as STRUCT.FIELD."""
    return {
        field if len(_holders(structs, field)) == 1 else f"{struct}.{field}": array
        for struct, fields in structs.items()
        for field, array in fields.items()
    }


def _dotted(structs: Mapping[str, Fields]) -> Fields:
    return {
        f"{struct}.{field}": array
        for struct, fields in structs.items()
        for field, array in fields.items()
    }
