"""The safetensors reader against files made byte by byte here, and against damage of every kind."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.lab.safetensors import DTYPES, SafetensorsError, load, loads


def pack(tensors: dict[str, np.ndarray], **changes) -> bytes:
    """A file as the format describes it; ``changes`` replace keys of the first tensor's entry."""
    names = {np.dtype(v): k for k, v in DTYPES.items()}
    header, body = {"__metadata__": {"format": "np"}}, b""
    for name, array in tensors.items():
        entry = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + array.nbytes],
        }
        header[name] = entry | (changes if not body else {})
        body += array.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=6).filter(lambda s: s != "__metadata__"),
        st.tuples(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 4), max_size=3)),
        max_size=4,
    )
)
def test_every_array_comes_back(spec):
    rng = np.random.default_rng(0)
    tensors = {
        name: rng.integers(0, 2, shape).astype(np.dtype(DTYPES[code])) for name, (code, shape) in spec.items()
    }
    found = loads(pack(tensors))
    assert list(found) == list(tensors)
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_agrees_with_the_reference_writer(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    tensors = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array(3.5, np.float32)}
    reference.save_file(tensors, tmp_path / "x.safetensors")
    found = load(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[k], v) for k, v in tensors.items())


GOOD = {"w": np.ones((2, 2), np.float32), "v": np.zeros(3, np.float16)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "F8"}, "dtype 'F8' found"),
        ({"dtype": 3}, "dtype 3 found"),
        ({"shape": [2, 3]}, "16 bytes for shape"),
        ({"shape": [-2, -2]}, "not negative"),
        ({"shape": [2.0, 2]}, "whole numbers"),
        ({"shape": None}, "expected dtype, shape"),
        ({"data_offsets": [0]}, "expected dtype, shape"),
        ({"data_offsets": [4, 20]}, "begins at byte"),
        ({"data_offsets": [16, 0]}, "-16 bytes for shape"),
    ],
)
def test_bad_entries_are_named(changes, message):
    with pytest.raises(SafetensorsError, match=message):
        loads(pack(GOOD, **changes))


@pytest.mark.parametrize("data", [b"", b"\x05", (5).to_bytes(8, "little"), (2).to_bytes(8, "little") + b"[]"])
def test_what_is_no_header_is_refused(data):
    with pytest.raises(SafetensorsError):
        loads(data)


def test_a_damaged_file_is_named_and_never_half_read(tmp_path):
    whole = pack(GOOD)
    path = tmp_path / "cut.safetensors"
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(SafetensorsError, match=r"cut\.safetensors"):
            load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(SafetensorsError, match="the file holds"):
        load(path)


def test_views_cannot_change_the_buffer():
    with pytest.raises(ValueError, match="read-only"):
        loads(pack(GOOD))["w"][0, 0] = 2
