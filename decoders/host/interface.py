"""The interfaces of submissions: the generations of the contests' frameworks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interface:
    """How a generation is recognised, and how its packets differ.

    marks: names that only this generation's submissions use.
    imports: prefixes of framework modules that only this generation has.
    positions: whether start positions count per `block` or `continuous` by default.
    extra_finish: the finish flag comes on an extra empty packet, not on the last one.
    """

    title: str
    marks: frozenset[str]
    imports: tuple[str, ...] = ()
    positions: str = "block"
    extra_finish: bool = False


INTERFACES = {
    "g4": Interface(
        "G4 async (2024): AlgorithmInterface with self._proxy and async run()",
        frozenset({"_proxy", "set_proxy", "get_source", "AlgorithmResultObject"}),
        ("Algorithm.method.interface", "Algorithm.method.model"),
        positions="continuous",
        extra_finish=True,
    ),
    "g3": Interface(
        "G3 (2023): AlgorithmInterface with self.comm_proxy",
        frozenset({"comm_proxy"}),
        ("Algorithm.AlgorithmInterface",),
    ),
    "g2-online": Interface(
        "G2 online (2022): AlgorithmInterface with self.algo_sys_mng",
        frozenset({"algo_sys_mng", "set_algorithm_system_manager"}),
        ("AlgorithmSystem.AlgorithmImplement.Interface",),
    ),
    "g1": Interface(
        "G1 camelCase (2019-21): AlgorithmInterface with self._problemInterface",
        frozenset({"_problemInterface", "setProblemInterface"}),
    ),
    "g2": Interface(
        "G2 snake_case (2022): AlgorithmInterface with self.task",
        frozenset({"PARADIGMNAME", "set_task", "task"}),
        ("Algorithm.Interface",),
    ),
    "my_algorithm": Interface(
        "emotion: class MyAlgorithm with get_data(packet) and algorithm()",
        frozenset({"MyAlgorithm"}),
    ),
    "ecog": Interface(
        "ecog: class EcogAlgorithm with choose_channels, get_data(packet) and algorithm()",
        frozenset({"EcogAlgorithm"}),
    ),
}
"""In the order of detection: from the most to the least specific names."""
