#!/usr/bin/env python3
"""Holds documents against a committed JSON schema: check_record.py SCHEMA DOCUMENT.json...

Exit 0 if all fit and damaged copies do not, 1 otherwise, 77 if the module jsonschema is missing.
"""
import copy
import json
import sys

try:
    import jsonschema
except ImportError:
    print("the Python module jsonschema is missing: apt-get install python3-jsonschema", file=sys.stderr)
    sys.exit(77)

schema = json.load(open(sys.argv[1]))
checker = jsonschema.validators.validator_for(schema)
checker.check_schema(schema)
checker = checker(schema)


def damaged(document):
    """Copies that a schema must refuse: one that takes everything says nothing."""
    for key in schema["required"]:
        bad = copy.deepcopy(document)
        del bad[key]
        yield f"without {key}", bad
    damages = [(("format",), "wavelane-other/1")]
    if "stacks" in document:
        flow = ("stacks", 0, "flows", 0)
        damages += [
            (("seed",), "1"),
            (("seed",), -1),
            (("repeat",), 0),
            (("backend",), "moon"),
            (("verdict",), "perhaps"),
            (("stacks", 0, "stack"), "tcp-vegas"),
            (("stacks",), []),
            ((*flow, "completed"), 1),
            ((*flow, "app"), "gopher"),
            ((*flow, "goodput_bps"), -1.0),
        ]
    if "cells" in document:
        damages += [(("repeat",), 0), (("cells", 0, "verdict"), "perhaps"), (("axes",), [])]
    if "differences" in document:
        row = ("differences", 0)
        damages += [((*row, "metric"), "mood"), ((*row, "ratio"), -1.0), ((*row, "first_runs"), 0)]
    for path, value in damages:
        bad = copy.deepcopy(document)
        inner = bad
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        yield f"{path} = {value!r}", bad


for name in sys.argv[2:]:
    document = json.load(open(name))
    for error in checker.iter_errors(document):
        sys.exit(f"{name}: {error.json_path}: {error.message}")
    for what, bad in damaged(document):
        if checker.is_valid(bad):
            sys.exit(f"{name}: not noticed: {what}")
print(f"{len(sys.argv) - 2} documents fit the schema")
