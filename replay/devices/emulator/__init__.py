"""An amplifier without hardware: serves a recording as Neuracle software would."""
