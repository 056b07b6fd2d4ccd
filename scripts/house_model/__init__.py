"""The house model: a small transformer trained on a synthetic world whose truth is known.

``world`` holds the facts, ``documents`` the text made from them, ``vocabulary`` the byte-BPE, ``network``
the decoder, ``train`` the schedule and ``evaluate`` the measurements behind the model card. Only ``train``
and ``evaluate`` need the ``train`` extra; readers run the model with the package's own NumPy engine.
"""
