"""The errors of the models: one tree, so that a caller can catch as much of it as it means to.

::

    ModelError
    ├── WeightsError        a weight file is missing, damaged or of another shape than its configuration
    │   └── GgufError       ... and it is a GGUF file
    ├── TokenizerError      a vocabulary that is no byte-level vocabulary, or a token id it does not have
    ├── CacheFull           a KV cache has no room for the tokens asked of it
    ├── SamplingError       a temperature, top-k, top-p or seed outside its range
    └── FetchError          a download that failed, was refused, or has another hash than expected

They say what was expected and what was found, in one line. None of them is about HTTP: what a server
answers is in :mod:`modelcall.lab.server.errors`.
"""

from __future__ import annotations

__all__ = [
    "CacheFull",
    "FetchError",
    "GgufError",
    "ModelError",
    "SamplingError",
    "TokenizerError",
    "WeightsError",
]


class ModelError(Exception):
    """Any error of loading or running a model."""


class WeightsError(ModelError):
    """A weight file is missing, damaged, or its tensors are not what the configuration promises."""


class GgufError(WeightsError):
    """A file is no GGUF file of a supported version, is cut short, or uses an unsupported type."""


class TokenizerError(ModelError):
    """A vocabulary is no byte-level vocabulary, or a token id or special token is not in it."""


class CacheFull(ModelError):  # noqa: N818 (it names the state, as queue.Full does)
    """A KV cache cannot take the tokens asked of it."""


class SamplingError(ModelError, ValueError):
    """A sampling setting is outside its range."""


class FetchError(ModelError):
    """A download failed, or what arrived is not what was expected."""
