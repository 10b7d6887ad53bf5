"""What all configuration models share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

#: A name that is safe in a path, a process tag and a database key.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]

#: Absolute path on a node.
NodePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00\n]*$")]


class Model(BaseModel):
    """Immutable, and unknown fields are errors: a misspelt setting must never be ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")
