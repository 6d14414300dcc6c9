"""Client of Bulkhead, a data-loading service for training jobs.

    import bulkhead

    with bulkhead.Loader("train.yaml") as loader:
        for batch in loader:
            train(batch["image"], batch["label"])
"""

from ._batch.batch import Batch
from ._batch.schema import Schema, TensorSpec
from ._dataset.source import Source
from ._loader import Loader
from ._meter import Meter
from ._meter_log import MeterLog
from ._rpc.credentials import Credentials
from ._service.status import service_status
from ._spec.pipeline import Pipeline
from ._spec.pipeline_methods import Feature, Frames, StageOutput, TruncatedImages
from ._stats import LoaderStats, metrics_text
from ._stream.events import Hang, Progress, Substitution
from ._trial.trial import StageTrial, TriedSample, try_stage
from .errors import (
    AccessDenied,
    BudgetExceeded,
    BulkheadError,
    CodeChanged,
    CredentialsInvalid,
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
    StreamIdle,
    Superseded,
    TransportUnavailable,
    UnknownOutput,
    UntrustedService,
    WorkerError,
)

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "Batch",
    "BudgetExceeded",
    "BulkheadError",
    "CodeChanged",
    "Credentials",
    "CredentialsInvalid",
    "CursorMismatch",
    "DataError",
    "DeadlineExceeded",
    "EpochsExhausted",
    "Feature",
    "Frames",
    "Hang",
    "InvalidArgument",
    "Loader",
    "LoaderClosed",
    "LoaderStats",
    "Meter",
    "MeterLog",
    "OutOfThreads",
    "Pipeline",
    "Progress",
    "ProtocolError",
    "ResourceExhausted",
    "ServiceNotFound",
    "ServiceStartFailed",
    "ServiceUnavailable",
    "Schema",
    "SlotsExhausted",
    "SpecError",
    "StageOutput",
    "Source",
    "StageTrial",
    "StreamIdle",
    "Substitution",
    "Superseded",
    "TensorSpec",
    "TransportUnavailable",
    "TriedSample",
    "TruncatedImages",
    "UnknownOutput",
    "UntrustedService",
    "WorkerError",
    "metrics_text",
    "service_status",
    "try_stage",
]
