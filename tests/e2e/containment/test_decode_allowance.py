"""Large images that meet by chance in one worker wait for each other, instead of ending it at its quota."""

import pytest

import bulkhead
from conftest import Service, write_spec


def test_large_images_of_many_threads_share_the_quota(folder):
    cv2 = pytest.importorskip("cv2")
    np = pytest.importorskip("numpy")
    # 9 MP, progressive: 26 MiB of pixels and as much of coefficients, in each of four threads at once.
    noise = np.random.default_rng(1).integers(0, 255, (300, 300, 3), np.uint8)
    pixels = cv2.resize(noise, (3000, 3000), interpolation=cv2.INTER_LINEAR)
    assert cv2.imwrite(str(folder / "large.jpg"), pixels, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    (folder / "list.txt").write_text("".join(f"large.jpg {number}\n" for number in range(16)))
    spec = write_spec(
        folder / "s.json",
        source={"image_list": {"path": "list.txt"}},
        stages=["decode_image", {"resize": {"size": [32, 32]}}],
        order={"sequential": {}},
        batch={"size": 4},
        epochs=1,
    )
    service = Service(
        folder, "--root", folder, "--workers", 1, "--threads", 4, "--worker-quota", "128MiB", "--recycle-growth", "false")
    try:
        with bulkhead.Loader(spec, service.target, timeout=120) as loader:
            labels = [label for batch in loader for label in batch["label"].tolist()]
        status = bulkhead.service_status(service.target)
    finally:
        service.stop()
    assert labels == list(range(16))
    assert int(status.get("limit_events", 0)) == 0, status.get("recent_exits")
    assert int(status.get("leases_redone", 0)) == 0
