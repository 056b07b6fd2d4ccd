"""Tangling: one test a refusal, drift in each generated file, and the same bytes every time.

The expected module is checked against Python itself (it is imported, compiled, linted), not against
a second implementation.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import v4 as nb4

import saved
import tangle
from notebooks import BookError

Chapter = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "code" / "modelcall"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A package."""\n', encoding="utf-8")
    (tmp_path / "chapters").mkdir()
    return tmp_path


@pytest.fixture
def chapter(root: Path) -> Chapter:
    def make(*sources: str, name: str = "01-first", title: str = "# One call {#sec-one}") -> Path:
        cells = [nb4.new_markdown_cell(title, id="title")]
        cells += [nb4.new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(sources, 1)]
        path = root / "chapters" / f"{name}.ipynb"
        nbformat.write(nb4.new_notebook(cells=cells), path)
        return path

    return make


def generated(root: Path, package: str = "ch01", name: str = "_generated.py") -> str:
    return (root / "code" / "modelcall" / package / name).read_bytes().decode()


def refusal(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run it, expect a refusal that leaves no trace, and return its message."""
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert tangle.main([], root) == 1
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert message.startswith("tangle: ")
    return message


FIRST = '''\
#| code-fold: true
#| label: area

# @save
from __future__ import annotations

import math
import sys, os.path
from dataclasses import dataclass


@dataclass(frozen=True)
class Circle:
    """A circle.

    >>> Circle(1.0).radius
    1.0
    """

    radius: float  # in metres


def area(circle: Circle) -> float:
    """Return the area."""
    # Why: the formula.
    return math.pi * circle.radius**2 + UNIT'''
SECOND = """\
# @save
import math
from collections.abc import Callable, Sequence

UNIT = 0.0
_hidden = [Circle(float(n)) for n in range(3)]"""


def test_module_has_hoisted_imports_blocks_with_ids_and_all(root: Path, chapter: Chapter) -> None:
    chapter("not_saved = 1", FIRST, "not_saved += 1", SECOND)
    assert tangle.main([], root) == 0
    text = generated(root)
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree)
    assert docstring is not None
    assert docstring.startswith("One call\n")
    assert "chapters/01-first.ipynb" in docstring
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports == [
        "from __future__ import annotations",
        "import math",
        "import os.path",
        "import sys",
        "from collections.abc import Callable, Sequence",
        "from dataclasses import dataclass",
    ]
    last_import = max(n.lineno for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom))
    assert all(n.lineno > last_import for n in tree.body[1 + len(imports) :])
    assert text.index("# cell: cell-2\n@dataclass") < text.index("# cell: cell-4\nUNIT = 0.0\n")
    assert "@save" not in text.split('"""')[2]
    assert "#|" not in text
    assert "not_saved" not in text
    assert "    # Why: the formula.\n" in text
    assert "radius: float  # in metres" in text
    assert "\r" not in text
    assert text.endswith("]\n")
    init = ast.parse(generated(root, name="__init__.py"))
    assert ast.unparse(init.body[-1]) == "__all__ = ['UNIT', 'Circle', 'area']"
    assert (ast.get_docstring(init) or "").startswith("One call\n")


def test_package_imports_and_works_in_a_clean_process(root: Path, chapter: Chapter) -> None:
    chapter(FIRST, SECOND)
    assert tangle.main([], root) == 0
    program = (
        f"import sys; sys.path.insert(0, {str(root / 'code')!r})\n"
        "from modelcall.ch01 import *\nprint(area(Circle(2.0)), '_hidden' in globals())"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "12.566370614359172 False\n"


def test_groups_are_stdlib_third_party_modelcall(root: Path, chapter: Chapter) -> None:
    (root / "code" / "modelcall" / "lab.py").write_text("X = 1\n", encoding="utf-8")
    chapter("# @save\nfrom modelcall.lab import X\nimport numpy as np\nimport re\nY = (X, np, re)")
    assert tangle.main([], root) == 0
    assert "\nimport re\n\nimport numpy as np\n\nfrom modelcall.lab import X\n" in generated(root)


def test_generated_files_are_clean_for_ruff_and_mypy(root: Path, chapter: Chapter) -> None:
    repository = Path(__file__).resolve().parent.parent
    many = "\n".join(f"name_{n} = {n}" for n in range(20))
    chapter(
        FIRST,
        SECOND.replace("Callable, ", ""),
        f"# @save\n{many}\n\n\ndef last(s: Sequence[int]) -> str:\n"
        '    """Use it."""\n    return sys.version + os.path.sep + str(s)',
    )
    assert tangle.main([], root) == 0
    config = ["--config", str(repository / "pyproject.toml"), "--no-cache"]
    folder = root / "code" / "modelcall" / "ch01"
    for extra in (["--ignore", "E702"], ["--select", "RUF022,I,F,E501"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", *config, *extra, str(folder)],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(root / "cache"), str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_second_run_writes_nothing(root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]) -> None:
    chapter(FIRST, SECOND)
    tangle.main([], root)
    before = {p: p.stat().st_mtime_ns for p in root.rglob("*.py")}
    capsys.readouterr()
    assert tangle.main([], root) == 0
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*.py")} == before
    assert "wrote" not in capsys.readouterr().out


def test_same_notebook_same_bytes_whatever_the_hash_seed(root: Path, chapter: Chapter) -> None:
    chapter(FIRST, SECOND)
    program = (
        "import sys; from pathlib import Path; import tangle\n"
        "module, = tangle.plan(tangle.load(Path(sys.argv[1])), Path(sys.argv[1]))\n"
        "sys.stdout.buffer.write(b''.join(module.files.values()))"
    )
    scripts = str(Path(tangle.__file__).parent)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, str(root)],
            env={"PYTHONPATH": scripts, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "line", ["%matplotlib inline", "!ls", "x = !ls", "x = %time 1", "math?", "    %time f()", "%%time\nx = 1"]
)
def test_refuses_magics_and_shell(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    body = f"def f():\n{line}" if line.startswith(" ") else line
    chapter("x = 1", f"# @save\n{body}")
    message = refusal(root, capsys)
    assert "chapters/01-first.ipynb, cell cell-2: " in message
    assert "IPython" in message
    assert repr(line.strip().split("\n")[0]) in message


def test_percent_inside_a_string_or_an_expression_is_no_magic(root: Path, chapter: Chapter) -> None:
    chapter('# @save\nx = (7\n%4)\ntext = """\n%time\n!ls\n"""')
    assert tangle.main([], root) == 0
    assert '"""\n%time\n!ls\n"""' in generated(root)


def test_refuses_what_is_no_python(root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]) -> None:
    chapter("# @save\nx = 1\ndef f(:\n    pass")
    message = refusal(root, capsys)
    assert "cell cell-1: line 2 is no valid Python" in message
    assert "'def f(:'" in message


@pytest.mark.parametrize("line", ["return 1", "await x()"])
def test_refuses_what_only_a_notebook_compiles(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    chapter(f"# @save\nx = 1\n{line}")
    assert "cell cell-1: line 2 is no valid Python" in refusal(root, capsys)


@pytest.mark.parametrize(
    ("one", "two", "name"),
    [
        ("def f(): ...", "def f(): ...", "f"),
        ("class A: ...", "A = 1", "A"),
        ("x = 1", "(x, y) = 1, 2", "x"),
        ("x = 1", "x += 1", "x"),
        ("x = 1", "for x in range(3): pass", "x"),
        ("x = 1", "if (x := 2): pass", "x"),
        ("x: int = 1", "with open('f') as x: pass", "x"),
        ("import math", "math = 1", "math"),
        ("import math as m", "import re as m", "m"),
        ("from os import path", "from sys import path", "path"),
        ("def f(): ...", "from os import path as f", "f"),
    ],
)
def test_refuses_a_duplicate_name(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], one: str, two: str, name: str
) -> None:
    chapter(f"# @save\n{one}", f"# @save\n{two}")
    message = refusal(root, capsys)
    assert f"01-first.ipynb, cell cell-2: {name} is already defined by cell cell-1" in message


def test_refuses_a_function_defined_twice_in_one_cell(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("# @save\ndef f(): return 1\n\ndef f(): return 2")
    assert "cell cell-1: defines f twice" in refusal(root, capsys)


def test_overloads_and_equal_imports_are_no_duplicates(root: Path, chapter: Chapter) -> None:
    chapter(
        "# @save\nimport typing\nimport os.path\n@typing.overload\ndef f(x: int) -> int: ...\n"
        "@typing.overload\ndef f(x: str) -> str: ...\ndef f(x): return x",
        "# @save\nimport os\nimport typing\ny = os.path.join('a', f('b'))",
    )
    assert tangle.main([], root) == 0


READS = [
    ("def f(): return N", "in a function"),
    ("def f(x=N): return x", "in a default"),
    ("def f(*, x=N): return x", "in a keyword default"),
    ("@N\ndef f(): ...", "in a decorator"),
    ("def f(x: N): ...", "in an annotation"),
    ("def f() -> N: ...", "in a result annotation"),
    ("def f() -> 'N': ...", "in a quoted annotation"),
    ("from __future__ import annotations\ndef f(x: N): ...", "in a postponed annotation"),
    ("x: N = 1", "in a variable annotation"),
    ("class A(N): ...", "as a base"),
    ("class A(metaclass=N): ...", "as a metaclass"),
    ("class A:\n    x = N", "in a class body"),
    ("class A:\n    def f(self): return N", "in a method"),
    ("class A:\n    N = 1\n    def f(self): return N", "past a class attribute of that name"),
    ("x = [i for i in N]", "as the iterable of a comprehension"),
    ("x = [N for i in range(3)]", "inside a comprehension"),
    ("x = [N for N in range(3)]; y = N", "after a comprehension variable of that name"),
    ("x = lambda: N", "in a lambda"),
    ("def f():\n    def g():\n        return N\n    return g", "in a nested function"),
    ("def f():\n    global N\n    N += 1", "as a declared global"),
    ("def f():\n    return f'{N:>3}'", "in an f-string"),
    ("def f(x):\n    match x:\n        case N.a: pass", "in a pattern"),
    ("print(N)", "at the top level"),
]


@pytest.mark.parametrize(("code", "where"), READS, ids=[where for _, where in READS])
def test_refuses_to_read_what_an_unsaved_cell_defines(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], code: str, where: str
) -> None:
    chapter("N = 3", f"# @save\n{code}")
    message = refusal(root, capsys)
    assert "01-first.ipynb, cell cell-2: reads N, which only the unsaved cell cell-1 defines" in message, (
        where
    )


NO_READS = [
    "def f(N): return N",
    "def f():\n    N = 1\n    return N",
    "x = [N for N in range(3)]",
    "x = {N: 1 for N in range(3)}",
    "class A:\n    N = 1\n    x = N",
    "f = lambda N: N",
    "def f():\n    import math as N\n    return N",
    "def f():\n    for N in range(3): yield N",
    "def f():\n    N = 0\n    def g():\n        nonlocal N\n        N += 1\n    return g",
    "def f(x):\n    match x:\n        case [N, *rest]: return N",
    "def f(x):\n    try: pass\n    except ValueError as N: raise N",
    "def f(x): return x.N",
    "x = dict(N=1)",
    "x = 'N'",
    "def f():\n    return len(__name__) + len(__file__)",
]


@pytest.mark.parametrize("code", NO_READS)
def test_a_local_of_the_same_name_is_no_read(root: Path, chapter: Chapter, code: str) -> None:
    chapter("N = 3", f"# @save\n{code}")
    assert tangle.main([], root) == 0


def test_finds_what_an_unsaved_cell_with_magics_defines(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("%matplotlib inline\nimport numpy as np", "# @save\ndef f(): return np.pi")
    assert "reads np, which only the unsaved cell cell-1 defines" in refusal(root, capsys)


def test_refuses_a_name_that_nothing_defines(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("# @save\ndef f(): return get_ipython()")
    assert "cell cell-1: reads get_ipython, which no cell of the chapter defines" in refusal(root, capsys)


@pytest.mark.parametrize("code", ["from math import *", "def f():\n    from math import *"])
def test_refuses_a_star_import(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    chapter(f"# @save\n{code}")
    message = refusal(root, capsys)
    assert "cell cell-1: " in message
    assert "imports *" in message or "import *" in message


def test_refuses_a_relative_import(root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]) -> None:
    chapter("# @save\nfrom .lab import x")
    assert "cell cell-1: line 1 has a relative import" in refusal(root, capsys)


@pytest.mark.parametrize("code", ["import math; x = 1", "x = 1; import math", "x = (\n1); import math"])
def test_refuses_an_import_that_shares_its_line(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    chapter(f"# @save\n{code}")
    assert "give the import a line of its own" in refusal(root, capsys)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("y = 1\nx = 1 / 0", "ZeroDivisionError"),
        ("import no_such_module\nx = no_such_module", "No module named 'no_such_module'"),
        ("x = later()", "NameError"),
    ],
)
def test_refuses_a_module_that_does_not_import_alone(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], code: str, error: str
) -> None:
    chapter("# @save\nz = 1", f"# @save\n{code}", "# @save\ndef later(): return 1")
    message = refusal(root, capsys)
    assert "modelcall.ch01 cannot be imported alone" in message
    assert error in message
    if "import" not in code:  # a hoisted import belongs to no single cell
        assert "chapters/01-first.ipynb, cell cell-2: " in message


def test_import_check_sees_no_name_of_the_calling_process(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "elsewhere"
    folder.mkdir()
    (folder / "only_on_pythonpath.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    chapter("# @save\nimport only_on_pythonpath\ny = only_on_pythonpath.x")
    assert "cannot be imported alone" in refusal(root, capsys)


def test_chapters_may_import_what_earlier_ones_newly_define(root: Path, chapter: Chapter) -> None:
    chapter("# @save\ndef f(): return 1")
    chapter("# @save\nfrom modelcall.ch01 import f\nx = f()", name="02-second")
    assert tangle.main([], root) == 0
    assert "from modelcall.ch01 import f\n" in generated(root, "ch02")


def test_refuses_a_marker_that_is_not_first(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("x = 1\n# @save\ny = 2")
    assert 'cell cell-1: "# @save" must be the first line of code' in refusal(root, capsys)


def test_refuses_options_that_are_no_yaml(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter('#| fig-cap: "open\n# @save\ny = 2')
    assert 'cell cell-1: the "#|" options are no valid YAML' in refusal(root, capsys)


def test_refuses_saved_cells_outside_numbered_chapters(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("# @save\nx = 1", name="notation")
    assert "chapters/notation.ipynb, cell cell-1: only a numbered chapter" in refusal(root, capsys)


def test_refuses_two_chapters_of_one_number(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("# @save\nx = 1")
    chapter("# @save\nx = 1", name="01-other")
    message = refusal(root, capsys)
    assert "chapters/01-first.ipynb" in message
    assert "chapters/01-other.ipynb" in message


def test_refuses_a_generated_file_without_a_chapter(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    path = chapter("# @save\nx = 1")
    assert tangle.main([], root) == 0
    path.unlink()
    assert "code/modelcall/ch01/_generated.py: no chapter saves cells for it" in refusal(root, capsys)
    assert tangle.main(["--check"], root) == 1


def test_refuses_a_file_that_is_no_notebook(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "chapters" / "01-first.ipynb").write_text('{"cells": 3}', encoding="utf-8")
    assert "chapters/01-first.ipynb: cannot be read as a notebook" in refusal(root, capsys)


@pytest.mark.parametrize("name", ["_generated.py", "__init__.py"])
@pytest.mark.parametrize("edit", ["change", "append", "truncate", "crlf", "delete"])
def test_check_finds_a_hand_edit_and_changes_nothing(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str], name: str, edit: str
) -> None:
    chapter(FIRST, SECOND)
    tangle.main([], root)
    assert tangle.main(["--check"], root) == 0
    path = root / "code" / "modelcall" / "ch01" / name
    good = path.read_bytes()
    lines = good.split(b"\n")
    number = len(lines) - 1
    if edit == "delete":
        path.unlink()
    else:
        lines[number - 1] += b"  # edited"
        bad = {
            "change": b"\n".join(lines),
            "append": good + b"x = 1\n",
            "truncate": b"\n".join(good.split(b"\n")[:-2]) + b"\n",
            "crlf": good.replace(b"\n", b"\r\n"),
        }[edit]
        path.write_bytes(bad)
    capsys.readouterr()
    assert tangle.main(["--check"], root) == 1
    message = capsys.readouterr().err
    assert f"code/modelcall/ch01/{name}: " in message
    expected = {
        "change": f"line {number} is",
        "append": f"line {number + 1} is",
        "truncate": f"line {number} is",
    }
    assert expected.get(edit, "missing" if edit == "delete" else "line 1 is") in message
    if edit != "delete":
        assert path.read_bytes() == bad
    assert tangle.main([], root) == 0
    assert path.read_bytes() == good


def test_check_finds_an_edited_chapter(
    root: Path, chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter("# @save\nx = 1")
    tangle.main([], root)
    chapter("# @save\nx = 2")
    assert tangle.main(["--check"], root) == 1
    assert "'x = 1'; chapters/01-first.ipynb generates 'x = 2'" in capsys.readouterr().err


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30).map(ascii), min_size=1, max_size=6))
def test_every_saved_statement_survives_in_order(values: list[str]) -> None:
    cells = [nb4.new_markdown_cell("# T", id="t")]
    for n, value in enumerate(values):
        cells.append(nb4.new_code_cell(f"# @save\nimport math\nx{n} = ({value}, math.pi)", id=f"c{n}"))
        cells.append(nb4.new_code_cell(f"y = {value}", id=f"u{n}"))
    module = tangle.tangle(nb4.new_notebook(cells=cells), tangle.ROOT / "chapters" / "01-x.ipynb")
    assert module is not None
    text = module.files["_generated.py"].decode()
    assigns = [ast.unparse(node) for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    assert assigns == [ast.unparse(ast.parse(f"x{n} = ({v}, math.pi)")) for n, v in enumerate(values)]
    assert text.count("import math\n") == 1


def test_book_is_tangled() -> None:
    """The repository's own package is what its chapters say."""
    assert shutil.which(sys.executable)
    modules = tangle.plan(tangle.load())
    assert [line for module in modules for line in tangle.drift(module)] == []


def test_error_type_carries_the_place() -> None:
    with pytest.raises(BookError, match=r"^here: defines f twice$"):
        saved.saved_cell("c", "def f(): ...\ndef f(): ...", "here")
