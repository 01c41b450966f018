"""warpsight for Python: reading reports (warpsight.open); saying what is to be collected of the
running program (warpsight.start, stop, mark)."""
from .control import mark, start, stop
from .reader import Batch, Error, Report, Table, open  # noqa: A004

__all__ = ["Batch", "Error", "Report", "Table", "mark", "open", "start", "stop"]
