"""`normalize: {at: trainer}` by the framework."""

import bulkhead.torch
import pytest
import torch
from conftest import CONSTANTS, NORMALIZED, check_normalized


@pytest.mark.parametrize("device", [None, "cpu", "cuda", "arena"])
@pytest.mark.parametrize("constants", CONSTANTS, ids=["mean", "divide"])
@pytest.mark.parametrize("kind", NORMALIZED)
def test_tensors_are_normalized_where_they_are(tmp_path, kind, constants, device):
    if device in ("cuda", "arena") and not torch.cuda.is_available():
        pytest.skip("no GPU")
    options = {"device": "cuda", "from_arena": True} if device == "arena" else {"device": device}

    def bits_of_first(spec):
        with bulkhead.torch.Dataset(spec, structure=("image", "label"), **options) as dataset:
            image, label = next(iter(dataset))
            assert image.is_contiguous() and image.device.type == (options["device"] or "cpu")
            assert label.dtype == torch.int64
            return image.view(torch.int32 if image.element_size() == 4 else torch.int16).cpu().numpy()

    check_normalized(tmp_path, kind, constants, bits_of_first)


def test_an_output_that_is_left_out_is_not_normalized(tmp_path):
    def bits_of_first(spec):
        with bulkhead.torch.Dataset(spec, structure="label") as dataset:
            assert next(iter(dataset)).dtype == torch.int64
        with bulkhead.torch.Dataset(spec) as dataset:
            return next(iter(dataset))["image"].numpy()

    check_normalized(tmp_path, "float32", CONSTANTS[0], bits_of_first)
