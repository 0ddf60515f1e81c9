"""Errors that a user can meet descend from one class, so that a command can show them as one line.

    BciError                      shown as its message, exit code 1
    ├── tracks.errors
    │   └── RuleError             something breaks a track's rules
    │       └── TruthError        a labelled recording breaks its track's training format
    └── bci_stream.errors
        ├── LogError              a run log that can't be read
        ├── WireError             a stream or message that breaks the protocol
        │   ├── NotFoundError     a stream that never appeared
        │   ├── LostError         a stream that went away, or samples that did
        │   └── RefusedError      the other side refused, with its reason
        ├── ContestError          a contest file or key that can't be used
        ├── SourceError           a recording or device that can't be read
        ├── StoreError, PageError  of the leaderboard
        └── decoders: ModelError, DecoderError, SubmissionError (its own tree: decoders.host.limits)

A message names the thing, the rule, what was got and what to do.
"""


class BciError(Exception):
    """Anything that a user can put right; its text is all that they are shown."""


class RuleError(BciError):
    """Something breaks a track's rules."""


class TruthError(RuleError):
    """A labelled recording breaks its track's training format."""
