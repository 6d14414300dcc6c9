"""Specs built in Python are the specs that YAML writes."""

import inspect
import json
import pickle
import shutil

import numpy as np
import pytest
import repository_specs
from conftest import check_fresh

import bulkhead
from bulkhead import Feature, Pipeline, SpecError
from bulkhead._rpc import descriptor, proto
from bulkhead._spec import spec_message

SPECS = list(repository_specs.specs())


def flowers():
    return (
        Pipeline.tfrecord(
            "train-*.tfrecord", features={"image": Feature.bytes(key="img_raw"), "label": "int64"}
        )
        .decode_image()
        .random_resized_crop(224)
        .random_horizontal_flip()
        .outputs("image", "label")
        .batch(64, drop_remainder=True)
        .order_global()
        .seed(1)
    )


def test_a_pipeline_writes_yaml_as_people_do():
    assert flowers().to_yaml() == (
        'source: {tfrecord: {files: "train-*.tfrecord"}}\n'
        "features: {image: {key: img_raw, bytes: {}}, label: {int64: {}}}\n"
        "stages:\n"
        "  - decode_image\n"
        "  - random_resized_crop: {size: 224}\n"
        "  - random_horizontal_flip\n"
        "batch: {size: 64, drop_remainder: true}\n"
        "order: {global: {}}\n"
        "seed: 1\n"
        "outputs: [image, label]\n"
    )


def test_its_repr_is_the_code_that_makes_it():
    pipeline = flowers()
    assert ".random_resized_crop(size=224)\n" in repr(pipeline)
    assert eval(repr(pipeline), vars(bulkhead)) == pipeline


@pytest.mark.parametrize("where, text", SPECS, ids=[where for where, _ in SPECS])
def test_every_spec_of_the_repository_goes_round(where, text):
    pipeline = Pipeline.from_yaml(text, base_dir="/data")
    assert pipeline.to_dict()["batch"]["size"] > 0
    assert Pipeline.from_yaml(pipeline.to_yaml(), base_dir="/data") == pipeline
    assert Pipeline.from_dict(pipeline.to_dict(), base_dir="/data") == pipeline
    as_json = json.dumps(pipeline.to_dict())
    assert Pipeline.from_yaml(as_json + "\n", base_dir="/data") == pipeline
    assert eval(repr(pipeline), vars(bulkhead)) == pipeline
    copy = pickle.loads(pickle.dumps(pipeline))
    assert copy == pipeline and hash(copy) == hash(pipeline)


def test_there_are_specs_to_go_round():
    assert len(SPECS) >= 19
    assert {where.split("/")[0] for where, _ in SPECS} >= {
        "README.md#0",
        "examples",
        "docs",
        "tests",
    }


# Values for one of everything.


def value_of(field):
    if descriptor.is_map(field):
        item = field.message_type.fields_by_name["value"]
        return {"a: b": full(item.message_type) if item.message_type else single_of(item)}
    if descriptor.is_repeated(field):
        return [full(field.message_type)] * 2 if field.message_type else [single_of(field)] * 2
    return full(field.message_type) if field.message_type else single_of(field)


def single_of(field):
    if field.enum_type is not None:
        return list(descriptor.enum_names(field.enum_type).values())[-1]
    names = {"string": "it's #1, \\ 'ok': é☃\n", "bool": True, "double": 0.1, "float": 123.675}
    kinds = {5: "double", 6: "float", 7: "bool", 9: "string"}
    return names.get(kinds.get(field.cpp_type), 7)


def full(message_type, choice=None):
    """Every field of a message, and of each oneof the first choice or `choice`."""
    values, chosen = {}, set()
    for field in message_type.fields:
        oneof = descriptor.choice_of(field)
        if oneof is not None and (oneof in chosen or choice not in (None, field.name)):
            continue
        if message_type.name == "MixedSource" and field.name == "source":
            values["source"] = {"tfrecord": {"files": ["a"]}}
            continue
        chosen.add(oneof)
        values[field.name] = value_of(field)
    return values


def choices(name):
    return [(name, field.name) for field in messages()[name].fields]


def messages():
    spec = proto.PipelineSpec.DESCRIPTOR
    types = {"PipelineSpec": spec}
    for field in spec.fields:
        if field.message_type is not None and not descriptor.is_map(field):
            types[field.message_type.name] = field.message_type
    return types


@pytest.mark.parametrize(
    "kind, name",
    [pair for kind in ("Stage", "BatchStage", "Order", "Source") for pair in choices(kind)],
)
def test_every_option_of_every_stage_order_and_source_goes_round(kind, name):
    message = messages()[kind].fields_by_name[name].message_type
    options = full(message)
    place = {"Stage": "stages", "BatchStage": "batch_stages"}.get(kind, kind.lower())
    item = {name: options}
    spec = {"source": {"range": {"size": 1}}, place: [item] if place.endswith("stages") else item}
    if name == "tfrecord":
        spec["features"] = {"x": "int64"}
    pipeline = Pipeline.from_dict(spec)
    written = pipeline.to_dict()[place]
    assert (written[0] if place.endswith("stages") else written)[name].keys() == options.keys()
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    assert eval(repr(pipeline), vars(bulkhead)) == pipeline


@pytest.mark.parametrize("kind", ["bytes", "int64", "float", "tensor"])
def test_every_option_of_every_feature_goes_round(kind):
    feature = proto.PipelineSpec.DESCRIPTOR.fields_by_name["features"].message_type
    feature = feature.fields_by_name["value"].message_type
    options = full(feature.fields_by_name[kind].message_type)
    made = getattr(Feature, kind)(**options, key="k")
    pipeline = Pipeline.tfrecord("a", features={"x": made})
    assert pipeline.to_dict()["features"]["x"][kind].keys() == options.keys()
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline


def test_a_tar_may_declare_features():
    plain = Pipeline.tar("shard-*.tar")
    assert plain.to_dict() == {"source": {"tar": {"files": ["shard-*.tar"]}}}
    declared = Pipeline.tar("a.tar", features={"x": Feature.int64(key="json:size/width")})
    assert declared.to_dict()["features"] == {"x": {"key": "json:size/width", "int64": {}}}
    for pipeline in (plain, declared):
        assert eval(repr(pipeline), vars(bulkhead)) == pipeline
        assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    mixed = Pipeline.mixture([(1, plain), (1, declared)])
    assert eval(repr(mixed), vars(bulkhead)) == mixed


def test_every_field_of_a_spec_has_a_method():
    names = set(descriptor.field_names(proto.PipelineSpec.DESCRIPTOR))
    names -= {"source", "features", "stages", "batch_stages", "order"}  # several methods each
    for name in names:
        assert callable(getattr(Pipeline, name)), name


def test_every_option_has_a_parameter():
    for kind, prefix in (("Stage", ""), ("Order", "order_"), ("Source", "")):
        for field in messages()[kind].fields:
            method = getattr(Pipeline, prefix + field.name)
            parameters = [name.rstrip("_") for name in inspect.signature(method).parameters]
            for option in descriptor.field_names(field.message_type):
                assert option in parameters, f"{field.name}.{option}"
            assert inspect.getdoc(method)


def test_the_methods_are_those_of_the_protos():
    if shutil.which("protoc") is None:
        pytest.skip("protoc is not installed")
    check_fresh("client/python/update_pipeline.py")


def test_options_are_required_where_their_stage_is_declared_so():
    for method, required in (("gaussian_blur", "kernel"), ("concat", "inputs"), ("pad", None)):
        parameters = inspect.signature(getattr(Pipeline, method)).parameters.values()
        without_default = [p.name for p in parameters if p.default is p.empty][1:]
        assert required in without_default if required else without_default == []


# Values.


def test_what_is_written_last_holds_and_stages_add_up():
    pipeline = (
        Pipeline.range(9).batch(2).batch(3).order_block(4).order_global().epochs(3).epochs(None)
    )
    pipeline = pipeline.filter("index", in_=[1, 2]).filter("index", max=5).skip(1).take(0)
    assert pipeline.to_dict() == {
        "source": {"range": {"size": 9}},
        "batch": {"size": 3},
        "order": {"global": {}},
        "filter": [{"feature": "index", "in": [1, 2]}, {"feature": "index", "max": 5}],
        "skip": 1,
        "take": 0,
    }


def test_a_method_leaves_its_pipeline_as_it_is():
    first = Pipeline.range(9)
    second = first.batch(2)
    assert first != second and "batch" not in first.to_dict()
    with pytest.raises(AttributeError, match="does not change"):
        first._message = None
    with pytest.raises(AttributeError, match="does not change"):
        del first._message


def test_arrays_and_paths_are_taken_for_lists_and_texts(tmp_path):
    pipeline = Pipeline.image_folder(tmp_path).normalize(
        mean=np.array([1.5, 2, 3], np.float32), std=np.float64(2)
    )
    assert pipeline.resize(size=np.int64(3)) == pipeline.resize(size=[3])
    assert pipeline.to_dict()["stages"] == [{"normalize": {"mean": [1.5, 2, 3], "std": [2]}}]
    assert pipeline.to_dict()["source"] == {"image_folder": {"path": str(tmp_path)}}


def test_float32_options_are_written_as_short_as_they_were_given():
    text = Pipeline.range(1).normalize(input="index", mean=123.675, std=58.395).to_yaml()
    assert "mean: 123.675, std: 58.395" in text


@pytest.mark.parametrize("value", [0.1, 1e-9, 1e22, float("inf"), 5e-324, -0.0, 2.0**60])
def test_numbers_go_round(value):
    pipeline = Pipeline.range(1).pad_rows(input="index", value=value)
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    assert pipeline._message.stages[0].pad_rows.value == value


def test_sizes_are_written_as_the_spec_writes_them():
    assert "leak: " in Pipeline.range(1).fault(leak="512MiB").to_yaml()
    assert (
        Pipeline.range(1).fault(leak="512MiB").to_dict()["stages"][0]["fault"]["leak"] == "512MiB"
    )


def test_constants_of_a_function_are_texts_that_look_like_what_was_given():
    output = bulkhead.StageOutput(name="y", dtype="float32")
    pipeline = Pipeline.range(1).python(
        "m:f", output, arguments={"a": True, "b": 4, "c": 0.5, "d": "x"}
    )
    arguments = pipeline.to_dict()["stages"][0]["python"]["arguments"]
    assert arguments == {"a": "true", "b": "4", "c": "0.5", "d": "x"}
    text = "source: {range: {size: 1}}\nstages: [{python: {arguments: {a: true, b: 4, c: 0.50}}}]\n"
    arguments = Pipeline.from_yaml(text).to_dict()["stages"][0]["python"]["arguments"]
    assert arguments == {"a": "true", "b": "4", "c": "0.50"}


def test_a_mixture_takes_what_is_its_sources_own():
    part = Pipeline.range(5).filter("index", min=1).split({"a": 0.5, "b": 0.5}, "a").skip(1).take(3)
    part = part.order_global().cast("float32", input="index")
    mixed = Pipeline.mixture([(0.9, part), (0.1, Pipeline.range(7))], stop="all_exhausted")
    source = mixed.batch(2).to_dict()["source"]["mixture"]
    assert source["stop"] == "all_exhausted"
    assert list(source["sources"][0]) == [
        "weight",
        "source",
        "filter",
        "split",
        "skip",
        "take",
        "order",
        "stages",
    ]
    assert eval(repr(mixed), vars(bulkhead)) == mixed


def test_a_mixture_refuses_what_is_of_the_whole():
    with pytest.raises(SpecError, match=r"sources\[1\]: `batch` is of the whole mixture"):
        Pipeline.mixture([(1, Pipeline.range(5)), (1, Pipeline.range(5).batch(3))])
    with pytest.raises(SpecError, match="pair of a weight and a Pipeline"):
        Pipeline.mixture([Pipeline.range(5)])
    with pytest.raises(SpecError, match="different folders"):
        Pipeline.mixture(
            [(1, Pipeline.range(5, base_dir="/a")), (1, Pipeline.range(5, base_dir="/b"))]
        )


def test_a_mixture_does_not_move_relative_paths_to_another_folder():
    here, there = Pipeline.image_folder("x"), Pipeline.image_folder("x", base_dir="/a")
    for parts in ([(1, here), (1, there)], [(1, there), (1, here)]):
        with pytest.raises(SpecError, match="different folders: /a, the current one"):
            Pipeline.mixture(parts)
    assert Pipeline.mixture([(1, here), (1, here)]).base_dir is None
    assert Pipeline.mixture([(1, Pipeline.range(5)), (1, there)]).base_dir == "/a"


# Faults.


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda p: p.resize(size="224"),
            r"stages\[0\].resize.size: must be a whole number, but is '224'",
        ),
        (
            lambda p: p.resize(size=[1, 2.5]),
            r"resize.size\[1\]: must be a whole number, but is 2.5",
        ),
        (lambda p: p.resize(size=-1), r"resize.size: must be at least 0, but is -1$"),
        (lambda p: p.resize(size=1 << 40), "must be at most 4294967295, but is 1099511627776$"),
        (lambda p: p.cast("flot32"), "cast.dtype: unknown value `flot32`; did you mean `float32`"),
        (lambda p: p.resize(antialias=1), "antialias: must be true or false"),
        (lambda p: p.normalize(mean=1e40), "too large for float32"),
        (lambda p: p.normalize(mean="x"), "normalize.mean: must be a number"),
        (
            lambda p: p.decode_image(truncated={"acept": 1}),
            "unknown field `acept`; did you mean `accept`",
        ),
        (lambda p: p.decode_image(truncated=0.9), "must be a map of TruncatedImages's fields"),
        (lambda p: p.fault(crash=True, hang=True), "one fault only: `crash` is given already"),
        (lambda p: p.batch(True), "batch.size: must be a whole number"),
        (lambda p: p.split(0.9, "train"), "split.parts: must be a map by name"),
        (lambda p: p.outputs("image", 3), r"outputs\[1\]: must be text, but is 3"),
        (lambda p: p.seed(1 << 64), "seed: must be at most 18446744073709551615"),
        (lambda p: p.concat([["a"]], "b"), "must be text"),
        (lambda p: p.outputs("\udc80"), "not UTF-8"),
    ],
)
def test_values_that_do_not_fit_raise_at_once(make, words):
    with pytest.raises(SpecError, match=words):
        make(Pipeline.range(1))


def test_unknown_names_raise_at_once():
    with pytest.raises(AttributeError, match="unknown method `resise`; did you mean `resize`"):
        Pipeline.range(1).resise()
    with pytest.raises(AttributeError, match="`order`; there are: `order_block`, `order_global`, .*`order_sequential`$"):
        Pipeline.range(1).order("global")
    with pytest.raises(TypeError, match="sise"):
        Pipeline.range(1).resize(sise=3)
    with pytest.raises(TypeError, match="begins with a source"):
        Pipeline()
    with pytest.raises(
        SpecError, match="features.label: unknown type `int46`; did you mean `int64`"
    ):
        Pipeline.tfrecord("a", features={"label": "int46"})


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("source: {rnge: {size: 3}}", 1, "spec:1:10: source.rnge: unknown source `rnge`; did you"),
        ("source:\n  range: {size: 1_0}\n", 2, "spec:2:11: source.range.size: must be a whole"),
        ("batch: {size: 3, last: dorp}", 1, "spec:1:18: batch.last: unknown value `dorp`"),
        ("batch: {size: 3\n", 2, "spec:2:1: not valid YAML: .*expected ',' or '}'"),
        ("stages:\n  - resize: {size: 3}\n    flip: {}\n", 3, "spec:3:5: stages.0..flip: unknown"),
        ("stages:\n  - resize: {}\n    pad: {}\n", 3, "one stage only: `resize` is given already"),
        ("stages: [deocde_image]", 1, "unknown stage `deocde_image`; did you mean `decode_image`"),
        ("batch:\n  size:\n", 2, "spec:2:3: batch.size: has no value"),
        ("batch: {size: 010}", 1, "must be a whole number"),
        ("errors: {max_fraction: yes}", 1, "must be a number"),
        ("seed: 1\ndeterministic: yes", 2, "must be true or false"),
        ("epochs: ever", 1, "epochs: must be a whole number"),
    ],
)
def test_errors_of_a_text_name_line_and_column(text, line, words):
    with pytest.raises(SpecError, match=words) as raised:
        Pipeline.from_yaml(text if text.endswith("\n") else text + "\n")
    assert raised.value.metadata["line"] == str(line)


def test_a_file_gives_its_folder_and_its_name_in_errors(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("source: {range: {size: 3}}\nbatch: {size: 2}\n")
    assert Pipeline.from_yaml(path).base_dir == str(tmp_path)
    assert Pipeline.from_yaml(path, base_dir="/x").base_dir == "/x"
    path.write_text("sorce: 1\n")
    with pytest.raises(SpecError, match=rf"{path}:1:1: sorce: unknown field `sorce`"):
        Pipeline.from_yaml(str(path))
    with pytest.raises(bulkhead.DataError, match="No such file"):
        Pipeline.from_yaml(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="path or text, not int"):
        Pipeline.from_yaml(3)


def test_the_json_of_the_message_is_a_spec_too():
    text = '{"source": {"imageFolder": {"path": "x"}}, "stages": [{"layout": {"to": "nchw"}}]}\n'
    text = text.replace("nchw", "IMAGE_LAYOUT_NCHW")
    assert Pipeline.from_yaml(text) == Pipeline.image_folder("x").layout("nchw")


def test_advice_lists_the_names_when_none_is_near():
    assert "there are: a, b" in spec_message.unknown("stage", "zzz", ["a", "b"])


def test_a_loader_sends_the_text_and_the_folder(fake, tmp_path, monkeypatch):
    target = fake.open().target
    sent = []

    def specification(pipeline):
        try:
            bulkhead.Loader(pipeline, target, timeout=10, reconnect_timeout=0).close()
        except bulkhead.BulkheadError:  # the fake reads JSON only
            pass
        sent.append(fake.opens[-1].spec)
        return sent[-1]

    pipeline = Pipeline.range(3).batch(2)
    monkeypatch.chdir(tmp_path)
    spec = specification(pipeline)
    assert (spec.text.text, spec.text.name) == (pipeline.to_yaml(), "pipeline")
    assert spec.base_dir == str(tmp_path)
    assert specification(Pipeline.range(3, base_dir="sub")).base_dir == str(tmp_path / "sub")


def a_module_function(image):
    return image


def test_a_function_where_a_name_is_wanted_gets_the_lines_to_write():
    outputs = [{"name": "image", "dtype": "uint8", "shape": [1]}]
    begun = bulkhead.Pipeline.range(3)
    with pytest.raises(bulkhead.SpecError) as caught:
        begun.python(a_module_function, outputs)
    assert f'\n    function="{__name__}:a_module_function"' in str(caught.value)

    def rotate(image):
        return image

    for function, name in ((rotate, "rotate"), (lambda image: image, "my_function")):
        with pytest.raises(bulkhead.SpecError) as caught:
            begun.python(function, outputs)
        lines = str(caught.value).splitlines()
        assert "put it in a file" in lines[0]
        assert lines[1:] == ["    %%writefile my_stages.py", f'    function="my_stages:{name}"']
