"""Numbers as sentences and tables have them."""


def counted(number: int, what: str) -> str:
    """Gives a number of things, in the singular where it is one."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def fixed(value: int | float, digits: int = 2) -> str:
    """Writes a number with so many digits after the point; what rounds to 0 has no sign."""
    text = f"{value:.{digits}f}"
    return text if float(text) else text.lstrip("-")
