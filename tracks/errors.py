"""Every error a user may meet descends from one class, so that a command can show it as one line.

    BciError                      shown as its message, exit code 1
    ├── tracks.errors
    │   └── RuleError             something breaks a track's rules
    │       └── TruthError        a labelled recording breaks its track's training format
    └── bci_stream.errors
        ├── LogError              a run log that can't be read
        ├── WireError             a stream or message that breaks the protocol
        │   ├── NotFoundError     a stream that never appeared
        │   ├── LostError         a stream that went away, or samples that did
        │   └── RefusedError      the other side said no, and why
        ├── ContestError          a contest file or key that can't be used
        ├── SourceError           a recording or device that can't be read
        ├── board.errors: StoreError, PageError
        └── decoders: ModelError, DecoderError, SubmissionError (its own tree: decoders.host.errors)

A message names the thing, the rule, what was got and what to do.
"""


class BciError(Exception):
    """Anything that a user can put right; its text is all that they are shown."""


class RuleError(BciError):
    """Something breaks a track's rules."""


class TruthError(RuleError):
    """A labelled recording breaks its track's training format."""
