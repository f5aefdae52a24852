"""The JSON about branches. See `…catalog.wire`."""

from __future__ import annotations

from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import WireModel

__all__ = ["CreateBranchRequest", "ForwardBranchRequest", "RenameBranchRequest"]


class CreateBranchRequest(WireModel):
    """``POST …/branches``.

    Attributes:
        branch: The new branch.
        from_tag: The tag that it begins at; without one the branch begins empty.
        from_snapshot: Begin with this snapshot instead; Headwater's addition.
    """

    model_config = example({"branch": "b", "fromTag": "v1"})

    branch: str
    from_tag: str | None = None
    from_snapshot: int | None = None


class RenameBranchRequest(WireModel):
    """``POST …/branches/{branch}/rename``."""

    model_config = example({"toBranch": "c"})

    to_branch: str


class ForwardBranchRequest(WireModel):
    """``POST …/branches/{branch}/forward``.

    Attributes:
        branch: In the specification, though no client sends it: the path names the branch.
    """

    model_config = example({})

    branch: str | None = None
