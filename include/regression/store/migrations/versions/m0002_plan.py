"""The rendered plan of every run, and the runs that a plan is all there is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("plan", sa.Text))


def downgrade() -> None:
    op.drop_column("runs", "plan")
