"""Validates objects of OpenShift and of the Prometheus operator against foreign.yaml."""

import pathlib

import jsonschema
import yaml

SCHEMA = yaml.safe_load((pathlib.Path(__file__).parent / "foreign.yaml").read_text())


def problem(value):
    """What is wrong with an object, or None. Raises KeyError if there is no schema for it."""
    schema = SCHEMA["kinds"][f"{value['apiVersion']}/{value['kind']}"] | {"definitions": SCHEMA["definitions"]}
    error = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(schema).iter_errors(value))
    return error and f"{'.'.join(map(str, error.absolute_path)) or 'the object'}: {error.message}"
