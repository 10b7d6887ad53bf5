"""Alembic's entry point; the connection comes from :func:`include.regression.store.engine.migrate`."""

from __future__ import annotations

from alembic import context

from include.regression.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
