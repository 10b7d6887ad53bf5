"""Postgres: tables, migrations, and the only code that reads or writes them."""

from include.regression.store.engine import DatabaseDown, engine, migrate

__all__ = ["DatabaseDown", "engine", "migrate"]
