#!/usr/bin/env python3
"""Holds Records against the committed JSON schema: check_record.py SCHEMA RECORD.json...

Exit 0 if all fit and damaged copies do not, 1 otherwise, 77 if the module jsonschema is missing.
"""
import copy
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

schema = json.load(open(sys.argv[1]))
checker = jsonschema.validators.validator_for(schema)
checker.check_schema(schema)
checker = checker(schema)
for name in sys.argv[2:]:
    record = json.load(open(name))
    for error in checker.iter_errors(record):
        sys.exit(f"{name}: {error.json_path}: {error.message}")
    # A schema that takes everything says nothing.
    damaged = [copy.deepcopy(record) for _ in range(4)]
    del damaged[0]["verdict"]
    damaged[1]["seed"] = "1"
    damaged[2]["stacks"][0]["flows"][0]["completed"] = 1
    damaged[3]["verdict"] = "perhaps"
    for i, bad in enumerate(damaged):
        if checker.is_valid(bad):
            sys.exit(f"{name}: damage {i} was not noticed")
print(f"{len(sys.argv) - 2} records fit the schema")
