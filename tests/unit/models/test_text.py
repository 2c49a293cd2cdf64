from __future__ import annotations

import ast

from examples.models.text import code_documents, is_held_out, prose_documents, running_text

PARAGRAPH = "The quick brown fox jumps over the lazy dog and then it rests for a while in the warm grass."


def test_a_tenth_of_all_names_is_held_out() -> None:
    held_out = sum(is_held_out(f"module{number}.py") for number in range(2000))
    assert 150 < held_out < 250


def test_no_document_is_both_trained_on_and_held_out() -> None:
    kept = {document.name for document in prose_documents(held_out=True)}
    assert kept
    assert all(is_held_out(name) for name in kept)


def test_code_has_no_docstrings_and_no_messages() -> None:
    trees = [ast.parse(document.text) for document in code_documents(held_out=True)]
    texts = [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert texts
    assert not [text for text in texts if " " in text]


def test_a_wrapped_and_indented_paragraph_becomes_one_line() -> None:
    wrapped = "   " + PARAGRAPH.replace(" over", "\n   over")
    assert running_text(wrapped) == PARAGRAPH + "\n\n"


def test_examples_and_short_lines_are_no_running_text() -> None:
    example = ">>> spam = {'a': 1, 'b': (2, 3)}; print(spam['a'] + spam['b'][0]) # == 3 !!! -> {1: 2, 3: 4}"
    assert running_text(f"{example}\n\nShort.\n\n{PARAGRAPH}") == PARAGRAPH + "\n\n"
