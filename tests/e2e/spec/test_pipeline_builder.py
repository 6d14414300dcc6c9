"""Specs built in Python, before the real service: it understands them as it understands their YAML."""

import json
import shutil
import sys

import grpc
import pytest
from conftest import PYTHON_PACKAGE, Service

import bulkhead
from bulkhead import Pipeline
from bulkhead._rpc import proto
from bulkhead._spec import list_file

sys.path.insert(0, str(PYTHON_PACKAGE / "tests"))
import repository_specs  # noqa: E402

DescribeRequest = proto._message("bulkhead.v1.DescribeRequest")
DescribeResponse = proto._message("bulkhead.v1.DescribeResponse")
SPECS = list(repository_specs.specs())


@pytest.fixture(scope="module")
def describe(tmp_path_factory):
    """What a service makes of a text, without looking at data: bytes, as a NaN is not equal to itself."""
    folder = tmp_path_factory.mktemp("describing")
    service = Service(folder, "--root", folder, "--workers", 1, "--python", sys.executable, "--python-path", folder, "--open-rate", 0)
    with grpc.insecure_channel(service.target) as channel:
        ask = channel.unary_stream(
            "/bulkhead.v1.Loader/Describe",
            request_serializer=DescribeRequest.SerializeToString,
            response_deserializer=DescribeResponse.FromString,
        )

        def description(text):
            request = DescribeRequest(
                spec={"text": {"text": text, "name": "spec"}, "base_dir": str(folder)}, schema_only=True
            )
            return next(iter(ask(request, timeout=30))).description.SerializeToString(deterministic=True)

        yield description
    assert service.stop() == 0


@pytest.mark.parametrize("where, text", SPECS, ids=[where for where, _ in SPECS])
def test_the_service_understands_both_alike(describe, where, text):
    pipeline = Pipeline.from_yaml(text)
    try:
        wanted = describe(text)
    except grpc.RpcError as refused:  # a spec that a test or a page shows for what is wrong with it
        with pytest.raises(grpc.RpcError) as again:
            describe(pipeline.to_yaml())
        assert again.value.code() == refused.code()
        return
    assert any(name in wanted for name in (b"image", b"index", b"tokens"))
    assert describe(pipeline.to_yaml()) == wanted
    assert describe(json.dumps(pipeline.to_dict())) == wanted


REST = "source: {range: {size: 40}}\nbatch: {size: 8}\n"


@pytest.mark.parametrize(
    "text",
    [
        "outputs:\n  - >-\n    index\n",
        "outputs: [!!str index]\nseed: !!int 7\n",
        "outputs: &names [index]\nseed: &n 4\ntake: *n\n",
        "stages:\n  - cast:\n      input: index\n      dtype: 'float32'\n  -\n    normalize: {input: index, mean: .5e+1}\n",
        '"outputs": ["\\x69n\\u0064\\U00000065x"]\n',
        "order: ~\nepochs: forever\ndeterministic: FALSE\n",
        "? seed\n: 12\n# a comment\nskip: 3 # another\n",
        "stages: [one_hot: {input: index, classes: 40}]\n",
    ],
)
def test_the_service_reads_yaml_as_the_builder_does(describe, text):
    text = REST + text
    try:
        wanted = describe(text)
    except grpc.RpcError as refused:
        pytest.fail(refused.details())
    assert describe(Pipeline.from_yaml(text).to_yaml()) == wanted


def test_a_dict_may_name_any_path(photos, folder):
    place = folder / "Ünïcode \U0001f600"
    shutil.copytree(photos / "folder", place)
    spec = {"source": {"image_folder": {"path": place}}, "batch": {"size": 8}, "epochs": 1}
    spec["stages"] = [{"decode_image": {}}, {"resize": {"size": 8}}]
    with bulkhead.Loader(spec, timeout=60) as loader:
        assert loader.next_batch().sample_count == 8


def test_most_specs_of_the_repository_are_valid(describe):
    refused = []
    for where, text in SPECS:
        try:
            describe(text)
        except grpc.RpcError:
            refused.append(where)
    assert len(refused) <= len(SPECS) * 0.3, refused


def test_what_the_service_refuses_names_the_line_of_the_text(folder):
    pipeline = (
        Pipeline.range(40)
        .one_hot(10, input="index")
        .resize(size=3, input="index")
        .cast("float32", input="nothing")
        .batch(8)
    )
    with pytest.raises(bulkhead.SpecError) as raised:
        bulkhead.Loader(pipeline, timeout=60)
    line = int(raised.value.metadata["line"])
    assert raised.value.metadata["file"] == "pipeline"
    assert f"pipeline:{line}:" in str(raised.value)
    assert "resize" in pipeline.to_yaml().splitlines()[line - 1]


def test_a_pipeline_gives_the_batches_of_its_yaml(photos, folder):
    pipeline = (
        Pipeline.image_folder("folder", base_dir=photos)
        .decode_image()
        .random_resized_crop(32)
        .normalize(divide=127.5, subtract=1)
        .order_global()
        .seed(3)
        .outputs("image", "label")
        .batch(16, last="pad")
        .epochs(1)
    )
    path = photos / "built.yaml"
    path.write_text(pipeline.to_yaml())
    try:
        with bulkhead.Loader(pipeline) as built, bulkhead.Loader(path) as written:
            for ours, theirs in zip(built, written):
                assert ours["image"].tobytes() == theirs["image"].tobytes()
                assert ours["label"].tolist() == theirs["label"].tolist()
            assert ours.last_in_epoch and built.state_dict() == written.state_dict()
            assert len(built) == len(written)
    finally:
        path.unlink()


ODD = ["#1.jpg", "a b.jpg", "it's, ok.jpg", '"q".jpg', " x.jpg", "a: b.jpg", "é☃.jpg", "{x}[y].jpg", "back\\slash.jpg",
       "'s.jpg", "%41&*!|>.jpg", "plain.jpg"]


@pytest.mark.parametrize("inline", [True, False])
def test_lists_with_odd_paths_arrive_in_order(photos, folder, monkeypatch, inline):
    if not inline:
        monkeypatch.setattr(list_file, "_MAX_INLINE_LINES", 3)
    for name, photo in zip(ODD, sorted((photos / "folder").rglob("*.jpg"))):
        shutil.copy(photo, folder / name)
    labels = [index * 10 for index in range(len(ODD))]

    def delivered():
        pipeline = Pipeline.from_lists(ODD, labels, base_dir=folder).decode_image().resize(size=8)
        with bulkhead.Loader(pipeline.batch(5).epochs(1)) as loader:
            del pipeline
            names, numbers = [], []
            for batch in loader:
                names += [path.decode() for path in batch["path"].tolist()]
                numbers += batch["label"].tolist()
            return names, numbers, loader.state_dict()

    names, numbers, cursor = delivered()
    assert [name.rpartition("/")[2] for name in names] == ODD
    assert numbers == labels
    # Another run of the same program: another temporary folder, the same cursor.
    assert delivered() == (names, numbers, cursor)


def test_a_list_file_lasts_until_its_loader_ends(photos, folder, monkeypatch):
    monkeypatch.setattr(list_file, "_MAX_INLINE_LINES", 3)
    paths = sorted((photos / "folder").rglob("*.jpg"))[:40]
    pipeline = Pipeline.from_lists(paths, range(40)).decode_image().resize(size=8).batch(5).epochs(2)
    place = pipeline.base_dir
    with bulkhead.Loader(pipeline) as loader:
        del pipeline
        first = [label for batch in loader for label in batch["label"].tolist()]
        loader._endpoint.kill()  # the next service reads the list again
        assert [label for batch in loader for label in batch["label"].tolist()] == first == list(range(40))
        assert loader.reconnects == 1
        assert place == loader._spec.base_dir
