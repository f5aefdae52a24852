"""Names of columns in the texts that Spark reads."""

__all__ = ["quoted"]


def quoted(name: str) -> str:
    """A column's name in backquotes: dots and spaces in it are its own."""
    return "`" + name.replace("`", "``") + "`"
