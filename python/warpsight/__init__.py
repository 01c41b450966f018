"""warpsight for Python: reading reports (warpsight.open)."""
from .reader import Batch, Error, Report, Table, open  # noqa: A004

__all__ = ["Batch", "Error", "Report", "Table", "open"]
