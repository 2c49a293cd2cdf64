from __future__ import annotations

from examples.models.text import is_held_out, prose_documents


def test_a_tenth_of_all_names_is_held_out() -> None:
    held_out = sum(is_held_out(f"module{number}.py") for number in range(2000))
    assert 150 < held_out < 250


def test_no_document_is_both_trained_on_and_held_out() -> None:
    kept = {document.name for document in prose_documents(held_out=True)}
    assert kept
    assert all(is_held_out(name) for name in kept)
