"""The version of ctrace; pyproject.toml and `ctrace.__version__` read it here."""

__version__ = "0.1.0"
