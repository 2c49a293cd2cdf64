"""YAML as Kubernetes reads it."""

from __future__ import annotations

import math

import yaml

_TEXT = "tag:yaml.org,2002:str"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class KeyIsNoText(yaml.YAMLError):
    """A key is none to Kubernetes; the message begins with it."""


class KubernetesLoader(yaml.SafeLoader):
    """Reads what Kubernetes reads: dates and times are texts, and so is each key; ``on: x`` has ``true``."""

    def construct_text(self, node: yaml.ScalarNode) -> object:
        """The text as it is written."""
        return self.construct_scalar(node)

    def construct_number(self, node: yaml.ScalarNode) -> object:
        """A number; what is one in base 60 to PyYAML is a text to Kubernetes."""
        if ":" in node.value:
            return self.construct_scalar(node)
        return self.construct_yaml_int(node) if node.tag == _INT else self.construct_yaml_float(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        """A map with texts as its keys.

        Raises:
            KeyIsNoText: a key is none to Kubernetes.
        """
        self.flatten_mapping(node)
        # Before the keys are compared, because 1 and true are one key to Python.
        node.value = [(self._as_text(key), value) for key, value in node.value]
        return super().construct_mapping(node, deep=deep)

    def _as_text(self, key: yaml.Node) -> yaml.Node:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _TEXT:
            return key
        text = _text_of_key(self.construct_object(key))
        if text is None:
            raise KeyIsNoText(
                f"a key that Kubernetes does not read as text, in line {key.start_mark.line + 1}; "
                "put the key into quotes"
            )
        return yaml.ScalarNode(_TEXT, text, key.start_mark, key.end_mark)


KubernetesLoader.add_constructor(_TIMESTAMP, KubernetesLoader.construct_text)
for _tag in (_INT, _FLOAT):
    KubernetesLoader.add_constructor(_tag, KubernetesLoader.construct_number)


def _text_of_key(value: object) -> str | None:
    """The text that sigs.k8s.io/yaml makes of a key; None where it refuses the key, or rounds it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value) and float(short := f"{value:g}") == value:
            return short
    return None
