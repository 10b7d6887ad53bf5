"""Connecting to the results database and bringing its schema up to date."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

#: URL of the results database, as postgresql+psycopg2://USER:PASSWORD@HOST:PORT/DATABASE.
URL_VARIABLE = "VERL_REGRESSION_DB"
#: Any constant: the advisory lock that lets one process migrate at a time.
_MIGRATION_LOCK = 7_231_905


class DatabaseDown(Exception):
    """The results database cannot be reached; the message names the address and what to do."""


def engine(url: str | None = None) -> Engine:
    """Return the engine of the results database (``VERL_REGRESSION_DB``), one per process and address."""
    address = url or os.environ.get(URL_VARIABLE)
    if not address:
        raise DatabaseDown(f"{URL_VARIABLE} is not set; `make up` sets it, otherwise export the results database's URL")
    return _engine(address)


@cache
def _engine(address: str) -> Engine:
    # Airflow forks a process per task; a pooled connection must not cross a fork.
    return create_engine(address, poolclass=NullPool)


def migrate(url: str | None = None) -> None:
    """Bring the schema to the newest version; safe to call from several processes at once.

    Raises DatabaseDown if Postgres does not answer.
    """
    # Imported here: the DAG files import this package, and only who migrates needs alembic.
    from alembic import command
    from alembic.config import Config

    the_engine = engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with the_engine.connect() as connection:
            connection.execute(text("select pg_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
            connection.commit()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.execute(text("select pg_advisory_unlock(:key)"), {"key": _MIGRATION_LOCK})
            connection.commit()
    except OperationalError as error:
        shown = make_url(the_engine.url).render_as_string(hide_password=True)
        raise DatabaseDown(
            f"the results database {shown} does not answer: {error.orig}. Start it, or mend {URL_VARIABLE}"
        ) from error
