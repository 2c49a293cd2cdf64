"""The two names that ``sglang/utils.py`` imports. Outside a notebook nothing uses them."""


class HTML:
    """A page in a notebook."""


def display(*_things: object) -> None:
    """Show nothing."""
