"""Client of Bulkhead, a data-loading service for training jobs.

    import bulkhead

    with bulkhead.Loader("train.yaml") as loader:
        for batch in loader:
            train(batch["image"], batch["label"])
"""

from ._batch import Batch, TensorSpec
from ._loader import Loader
from ._service import service_status
from ._stream import Progress, Substitution
from .errors import (
    BudgetExceeded,
    BulkheadError,
    CursorMismatch,
    DataError,
    DeadlineExceeded,
    EpochsExhausted,
    InvalidArgument,
    LoaderClosed,
    OutOfThreads,
    ProtocolError,
    ResourceExhausted,
    ServiceNotFound,
    ServiceStartFailed,
    ServiceUnavailable,
    SlotsExhausted,
    SpecError,
    Superseded,
    TransportUnavailable,
    WorkerError,
)

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "BudgetExceeded",
    "BulkheadError",
    "CursorMismatch",
    "DataError",
    "DeadlineExceeded",
    "EpochsExhausted",
    "InvalidArgument",
    "Loader",
    "LoaderClosed",
    "OutOfThreads",
    "Progress",
    "ProtocolError",
    "ResourceExhausted",
    "ServiceNotFound",
    "ServiceStartFailed",
    "ServiceUnavailable",
    "SlotsExhausted",
    "SpecError",
    "Substitution",
    "Superseded",
    "TensorSpec",
    "TransportUnavailable",
    "WorkerError",
    "service_status",
]
