"""Write the samples of ``data/samples`` that are made and not typed; ``--check`` only compares.

JSON, digests, identifiers and base64 come from a fixed seed, so the same bytes come out on every machine.
The traces were captured once from the programs in ``sample_programs`` (``--capture``, which needs g++ 12, its
sanitizer and Python 3.13): addresses and compilers differ, so the captured text is the sample. The folder of
the build is written as ``/srv/build``. What people typed (prose, Python, CJK, Arabic, emoji) is left alone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "data" / "samples"
PROGRAMS = Path(__file__).resolve().parent / "sample_programs"
COMMANDS = (
    "find /var/log -name '*.log' -mtime +7 -exec grep -lE \"^(FATAL|ERROR) .*code=[45][0-9]{2}\" {} \\; "
    '| sort -u | while read -r f; do printf \'%s\\t%s\\n\' "$(stat -c %s "$f")" "$f"; done '
    "| awk -F'\\t' '$1 > 1048576 {print $2}' | xargs -r -n 20 tar -czf \"/srv/archive/old-$(date +%F).tgz\"",
    'sed -i.bak -E \'s#(host *= *)"[^"]+"#\\1"db-2.internal:5432"#; /^[[:space:]]*\\#/d\' conf/*.toml '
    "&& git diff --stat -- conf | tail -n 1",
    'curl -fsS -X POST -H \'Content-Type: application/json\' -d \'{"level":"warn","match":"^api/v[12]/"}\' '
    "http://localhost:8080/rules | jq -r '.rules[] | select(.hits > 0) | \"\\(.id)\\t\\(.hits)\"'",
    'for d in build/{debug,release}; do (cd "$d" && ctest -j"$(nproc)" --output-on-failure '
    '-E \'^(slow|gpu)_\' 2>&1 | tee "../../logs/${d##*/}.txt") || echo "$d: exit $?" >&2; done',
)


def made() -> dict[str, str]:
    """Return the generated samples by file name."""
    rng = random.Random("samples")
    identifiers = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(80)]
    digests = [hashlib.sha256(f"block {number}".encode()).hexdigest() for number in range(48)]
    records = [
        {
            "id": identifiers[number],
            "customer": f"C-{rng.randrange(10**6):06d}",
            "status": rng.choice(["paid", "shipped", "returned", "open"]),
            "items": [
                {"article": rng.choice(["lamp", "shade", "cable", "bulb"]), "quantity": rng.randrange(1, 6)}
                for _ in range(rng.randrange(1, 4))
            ],
            "total": round(rng.uniform(3, 400), 2),
            "gift": rng.random() < 0.2,
            "note": rng.choice([None, "leave at the door", "call before delivery"]),
        }
        for number in range(16)
    ]
    call = {"tool": "execute_command", "arguments": {"command": "\n".join(COMMANDS), "timeout_s": 60}}
    escaped = json.dumps(call, separators=(",", ":"))
    samples = {
        "json_compact.txt": json.dumps(records, separators=(",", ":")),
        "json_indented.txt": json.dumps(records, indent=2),
        "command.txt": "\n".join(COMMANDS),
    }
    for times in (1, 2, 3):
        samples[f"escaped_{times}.txt"] = escaped
        escaped = json.dumps({"tool": "forward", "payload": escaped}, separators=(",", ":"))
    samples["hex.txt"] = "\n".join(digests)
    samples["uuid.txt"] = "\n".join(identifiers)
    samples["base64.txt"] = base64.encodebytes(rng.randbytes(2400)).decode().rstrip("\n")
    return {name: text + "\n" for name, text in samples.items()}


def captured() -> dict[str, str]:
    """Run the programs and return what they write to standard error, by file name.

    Raises:
        OSError: a compiler or interpreter is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        for source in PROGRAMS.iterdir():
            (Path(folder) / source.name).write_bytes(source.read_bytes())
        gcc = ["g++", "-std=c++17", "-o", "freed", "-fdiagnostics-color=always"]
        asan = [*gcc, "-g", "-fsanitize=address", "-fno-omit-frame-pointer", "freed.cpp"]
        subprocess.run(asan, cwd=folder, check=True)
        commands = {
            "gcc_ansi.txt": [*gcc, "-c", "unsortable.cpp"],
            "asan.txt": [f"{folder}/freed"],
            "traceback_ansi.txt": ["python3.13", "failing.py"],
        }
        outputs = {}
        for name, command in commands.items():
            environment = {"PYTHON_COLORS": "1", "PATH": "/usr/local/bin:/usr/bin:/bin:" + extra_path()}
            run = subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)
            outputs[name] = run.stderr.decode("utf-8").replace(folder, "/srv/build")
    return outputs


def extra_path() -> str:
    """Return the folder of the Python 3.13 that runs this, or nothing."""
    return str(Path(sys.executable).parent) if sys.version_info[:2] == (3, 13) else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/samples.py", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--capture", action="store_true", help="also run the programs and keep their traces")
    args = parser.parse_args()
    samples = made() | (captured() if args.capture else {})
    if args.check:
        stale = [
            name
            for name, text in samples.items()
            if not (TARGET / name).is_file() or (TARGET / name).read_text(encoding="utf-8") != text
        ]
        for name in stale:
            print(f"samples: data/samples/{name} is not what this script makes", file=sys.stderr)
        return 1 if stale else 0
    for name, text in samples.items():
        temporary = TARGET / f"{name}.tmp"
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(TARGET / name)
    print(f"wrote {len(samples)} samples")
    return 0


if __name__ == "__main__":
    sys.exit(main())
