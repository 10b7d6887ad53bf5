"""What the preflight saw and found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "preflights",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run", sa.Text),
        sa.Column("suite", sa.Text),
        sa.Column("release", sa.Text),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("facts", JSONB, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "started_at", name="preflights_pkey"),
        sa.ForeignKeyConstraint(["run"], ["runs.run"], ondelete="CASCADE", name="preflights_run_fkey"),
    )
    op.create_table(
        "findings",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("check", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("fix", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "started_at", "position", name="findings_pkey"),
        sa.ForeignKeyConstraint(
            ["cluster", "started_at"],
            ["preflights.cluster", "preflights.started_at"],
            ondelete="CASCADE",
            name="findings_preflight_fkey",
        ),
    )


def downgrade() -> None:
    op.drop_table("findings")
    op.drop_table("preflights")
