#include "server/source/tfrecord/example_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/source/example_reader_fixture.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A field of wire type 2.
std::string Field(int number, absl::string_view bytes) {
  std::string out;
  out += static_cast<char>(number << 3 | 2);
  size_t size = bytes.size();
  for (; size >= 128; size >>= 7) out += static_cast<char>(size | 128);
  out += static_cast<char>(size);
  return absl::StrCat(out, bytes);
}

// An Example of map entries that hold Feature messages as given.
std::string RawExample(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string entries;
  for (const auto& [key, feature] : features) {
    entries += Field(1, Field(1, key) + Field(2, feature));
  }
  return Field(1, entries);
}

TEST_F(ExampleReaderTest, ReadsEveryKindOfFeatureSortedByName) {
  Declare("text").mutable_bytes();
  Declare("label").mutable_int64();
  Declare("box").mutable_float_()->add_shape(4);
  Declare("ids").mutable_int64()->add_shape(-1);
  features_["ids"].mutable_int64()->set_max_count(5);
  features_["text"].set_key("caption");
  Put("caption").mutable_bytes_list()->add_value("hello");
  Put("label").mutable_int64_list()->add_value(-3);
  for (const float v : {0.5f, 1.f, -2.f, 1e9f}) Put("box").mutable_float_list()->add_value(v);
  for (const int64_t v : {int64_t{1}, INT64_MIN, INT64_MAX})
    Put("ids").mutable_int64_list()->add_value(v);
  Put("unused").mutable_bytes_list()->add_value("x");
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_THAT(Numbers<float>(values_[0]), ElementsAre(0.5f, 1.f, -2.f, 1e9f));
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(1, INT64_MIN, INT64_MAX));
  EXPECT_EQ(values_[1].count, 3);
  EXPECT_THAT(Numbers<int64_t>(values_[2]), ElementsAre(-3));
  EXPECT_EQ(Text(values_[3]), "hello");
  // Bytes and packed floats are views of the record, not copies.
  for (const int i : {0, 3}) {
    EXPECT_GE(values_[i].data, reinterpret_cast<const std::byte*>(record_.data()));
    EXPECT_LT(values_[i].data, reinterpret_cast<const std::byte*>(record_.data() + record_.size()));
  }
}

TEST_F(ExampleReaderTest, ReadsUnpackedListsAndListsInPieces) {
  Declare("f").mutable_float_()->add_shape(3);
  Declare("i").mutable_int64()->add_shape(4);
  const std::string one = BytesOf<float>({1});
  const std::string unpacked = "\x0d" + one + Field(1, BytesOf<float>({2, 3}));
  const std::string ints =
      std::string("\x08\x05") + Field(1, absl::string_view("\x06\x80\x01", 3)) + "\x08\x07";
  ASSERT_TRUE(Read(RawExample({{"f", Field(2, unpacked)}, {"i", Field(3, ints)}})).ok());
  EXPECT_THAT(Numbers<float>(values_[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(5, 6, 128, 7));
}

TEST_F(ExampleReaderTest, MergesRepeatedPartsAsProtobufDoes) {
  Declare("a").mutable_bytes();
  Declare("b").mutable_int64()->add_shape(2);
  const auto bytes = [](const std::string& v) { return Field(1, Field(1, v)); };
  // A repeated key, Features in two pieces, unknown fields of every type, a list in two messages.
  const std::string unknown = std::string("\x48\x01", 2) + Field(10, "zzz") +
                              "\x5d"
                              "1234" +
                              "\x59"
                              "12345678" +
                              "\x63\x48\x01\x64";  // a group
  const std::string record =
      unknown + RawExample({{"a", bytes("first")}, {"a", unknown + bytes("last")}}) + unknown +
      RawExample({{"b", Field(3, Field(1, "\x01")) + Field(3, Field(1, "\x02"))}});
  ASSERT_TRUE(Read(record).ok());
  EXPECT_EQ(Text(values_[0]), "last");
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(1, 2));
  tensorflow::Example reference;
  ASSERT_TRUE(reference.ParseFromString(record));
  EXPECT_EQ(reference.features().feature().at("a").bytes_list().value(0), "last");
  EXPECT_EQ(reference.features().feature().at("b").int64_list().value_size(), 2);
  // Of several kinds in one Feature the last one counts.
  const std::string kinds = Field(3, Field(1, "\x01")) + bytes("text");
  ASSERT_TRUE(Read(RawExample({{"a", kinds}, {"b", Field(3, Field(1, "\x01\x02"))}})).ok());
  EXPECT_EQ(Text(values_[0]), "text");
}

TEST_F(ExampleReaderTest, MissingFeatureTakesItsDefaultOrIsABadSample) {
  Declare("a").mutable_bytes()->set_default_("none");
  Declare("b").mutable_int64()->add_shape(3);
  features_["b"].mutable_int64()->add_default_(7);
  Declare("c").mutable_float_()->add_shape(-1);
  features_["c"].mutable_float_()->set_max_count(2);
  Declare("d").mutable_float_()->add_shape(2);
  for (const float v : {1.f, 2.f}) features_["d"].mutable_float_()->add_default_(v);
  Set(*Declare("e").mutable_tensor(), v1::DTYPE_FLOAT32, {-1, 4}, 8);
  features_["e"].mutable_tensor()->set_allow_missing(true);
  Put("a");  // a Feature without any list counts as missing too
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_EQ(Text(values_[0]), "none");
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(7, 7, 7));
  EXPECT_THAT(Numbers<float>(values_[2]), IsEmpty());
  EXPECT_EQ(values_[2].count, 0);
  EXPECT_THAT(Numbers<float>(values_[3]), ElementsAre(1, 2));
  EXPECT_EQ(values_[4].count, 0);
  for (const auto& declare : std::vector<std::function<void(v1::Feature&)>>{
           [](v1::Feature& f) { f.mutable_bytes(); }, [](v1::Feature& f) { f.mutable_int64(); },
           [](v1::Feature& f) { f.mutable_float_(); },
           [](v1::Feature& f) { Set(*f.mutable_tensor(), v1::DTYPE_INT32, {-1}, 1); }}) {
    features_.clear();
    declare(features_["gone"]);
    const absl::Status status = Read(example_);
    EXPECT_EQ(ReasonOf(status), reason::kMissingFeature);
    EXPECT_TRUE(IsSampleError(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("`gone`"));
  }
}

TEST_F(ExampleReaderTest, AMissingFeatureNamesWhatTheRecordHolds) {
  tensorflow::Example example;
  for (const char* key : {"image/encoded", "image/class/label", "height"}) {
    (*example.mutable_features()->mutable_feature())[key].mutable_int64_list()->add_value(1);
  }
  Declare("image/encodet").mutable_int64();
  EXPECT_THAT(std::string(Read(example).message()), HasSubstr("did you mean `image/encoded`?"));
  features_.clear();
  Declare("pixels").mutable_int64();
  EXPECT_THAT(std::string(Read(example).message()),
              HasSubstr("it holds height, image/class/label, image/encoded; correct its `key`"));
  EXPECT_THAT(std::string(Read(tensorflow::Example()).message()), HasSubstr("holds no feature"));
}

TEST_F(ExampleReaderTest, DefaultThatDoesNotFitIsASpecError) {
  Declare("a").mutable_int64()->add_shape(3);
  for (const int v : {1, 2}) features_["a"].mutable_int64()->add_default_(v);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kSpecInvalid);
}

TEST_F(ExampleReaderTest, WrongKindShapeAndBoundAreBadSamples) {
  Declare("a").mutable_int64();
  Put("a").mutable_float_list()->add_value(1);
  absl::Status status = Read(example_);
  EXPECT_EQ(ReasonOf(status), reason::kWrongDType);
  EXPECT_THAT(std::string(status.message()), HasSubstr("float list"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("int64 list"));
  Put("a").mutable_int64_list()->add_value(1);
  Put("a").mutable_int64_list()->add_value(2);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kWrongShape);
  features_["a"].mutable_int64()->add_shape(-1);
  features_["a"].mutable_int64()->set_max_count(1);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kOverBound);
  features_["a"].mutable_int64()->set_max_count(2);
  EXPECT_TRUE(Read(example_).ok());
  features_["a"].mutable_int64()->add_shape(3);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kWrongShape);
  features_.clear();
  Declare("a").mutable_bytes()->set_max_bytes(3);
  Put("a").mutable_bytes_list()->add_value("four");
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kOverBound);
  Put("a").mutable_bytes_list()->add_value("four");
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kWrongShape);
}

TEST_F(ExampleReaderTest, AByteStringTellsItsLengthAlsoWhereItEndsInZeros) {
  v1::BytesFeature& text = *Declare("text").mutable_bytes();
  text.set_length("bytes");
  text.set_default_("none");
  features_["text"].set_key("caption");
  Put("caption").mutable_bytes_list()->add_value(std::string("a\0\0", 3));
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_THAT(Numbers<int64_t>(values_[0]), ElementsAre(3));  // bytes, text
  EXPECT_EQ(Text(values_[1]), std::string("a\0\0", 3));
  ASSERT_TRUE(Read(tensorflow::Example()).ok());
  EXPECT_THAT(Numbers<int64_t>(values_[0]), ElementsAre(4));
  text.set_max_bytes(2);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kOverBound);
}

TEST_F(ExampleReaderTest, ListsOfByteStringsArePaddedRows) {
  v1::BytesFeature& names = *Declare("names").mutable_bytes();
  names.add_shape(-1);
  names.set_max_count(3);
  names.set_max_bytes(4);
  names.set_length("sizes");
  for (const std::string& name : {std::string("cat"), std::string(), std::string("d\0\0\0", 4)}) {
    Put("names").mutable_bytes_list()->add_value(name);
  }
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_EQ(Text(values_[0]), std::string("cat\0\0\0\0\0d\0\0\0", 12));
  EXPECT_EQ(values_[0].count, 3);
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(3, 0, 4));
  EXPECT_EQ(values_[1].count, 3);
  ASSERT_TRUE(Read(tensorflow::Example()).ok());
  EXPECT_EQ(values_[0].count, 0);
  EXPECT_EQ(values_[1].count, 0);

  Put("names").mutable_bytes_list()->add_value("x");
  EXPECT_THAT(std::string(Read(example_).message()), HasSubstr("holds 4 rows, max_count is 3"));
  names.set_max_count(4);
  names.set_max_bytes(3);
  EXPECT_THAT(std::string(Read(example_).message()), HasSubstr("has 4 bytes, max_bytes is 3"));
  names.set_max_bytes(4);
  names.clear_shape();
  for (const int extent : {2, 2}) names.add_shape(extent);
  names.clear_max_count();
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_EQ(Text(values_[0]), std::string("cat\0\0\0\0\0d\0\0\0x\0\0\0", 16));
  EXPECT_THAT(Numbers<int64_t>(values_[1]), ElementsAre(3, 0, 4, 1));
  names.set_shape(1, 3);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kWrongShape);
  EXPECT_THAT(std::string(Read(tensorflow::Example()).message()), HasSubstr("`shape: [-1]`"));
}

class BoxesFeatureTest : public ExampleReaderTest {
 protected:
  BoxesFeatureTest() { Declare("boxes").mutable_boxes()->set_max_count(2); }

  tensorflow::FloatList& Side(const std::string& side) {
    return *Put("image/object/bbox/" + side).mutable_float_list();
  }
  void PutBox(float xmin, float ymin, float xmax, float ymax) {
    Side("xmin").add_value(xmin);
    Side("ymin").add_value(ymin);
    Side("xmax").add_value(xmax);
    Side("ymax").add_value(ymax);
  }
};

TEST_F(BoxesFeatureTest, FourListsBecomeRows) {
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_EQ(values_[0].count, 0);
  PutBox(0.125f, 0.25f, 0.5f, 1);
  PutBox(0, 0.75f, 0.0625f, 0.875f);
  ASSERT_TRUE(Read(example_).ok());
  EXPECT_EQ(values_[0].count, 2);
  EXPECT_THAT(Numbers<float>(values_[0]),
              ElementsAre(0.125f, 0.25f, 0.5f, 1, 0, 0.75f, 0.0625f, 0.875f));
  PutBox(0, 0, 1, 1);
  EXPECT_EQ(ReasonOf(Read(example_)), reason::kOverBound);
}

TEST_F(BoxesFeatureTest, UnequalListsAreNamed) {
  PutBox(0, 0, 1, 1);
  Side("ymax").add_value(1);
  const absl::Status status = Read(example_);
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(ReasonOf(status), reason::kWrongShape);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("feature `image/object/bbox`: its lists have unequal lengths: xmin 1, ymin "
                        "1, xmax 1, ymax 2"));
  Side("ymax").clear_value();
  Put("image/object/bbox/ymax").mutable_int64_list()->add_value(1);
  EXPECT_THAT(std::string(Read(example_).message()), HasSubstr("`ymax` is an int64 list"));
}

TEST_F(BoxesFeatureTest, ListsOfAnotherKeyAndInPiecesAreRead) {
  features_["boxes"].set_key("b");
  const auto list = [](const std::string& content) { return Field(2, content); };
  const std::string unpacked =
      "\x0d" + BytesOf<float>({1}) + Field(1, BytesOf<float>({2}));  // one alone, one packed
  const std::string packed = Field(1, BytesOf<float>({3, 4}));
  ASSERT_TRUE(Read(RawExample({{"b/xmin", list(unpacked)},
                               {"b/ymin", list(packed)},
                               {"b/xmax", list(packed)},
                               {"b/ymax", list(packed)}}))
                  .ok());
  EXPECT_THAT(Numbers<float>(values_[0]), ElementsAre(1, 3, 3, 3, 2, 4, 4, 4));
}

// Every error that untrusted bytes can cause is a verdict on the sample.
class MalformedExampleTest : public ExampleReaderTest {
 protected:
  MalformedExampleTest() {
    Declare("bytes").mutable_bytes();
    Declare("label").mutable_int64();
    Declare("ids").mutable_int64()->add_shape(-1);
    features_["ids"].mutable_int64()->set_max_count(4);
    Declare("floats").mutable_float_()->add_shape(2);
    Set(*Declare("boxes").mutable_tensor(), v1::DTYPE_FLOAT32, {-1, 4}, 4);
    features_["boxes"].mutable_tensor()->set_cast(true);
    v1::BytesFeature& names = *Declare("names").mutable_bytes();
    names.add_shape(-1);
    names.set_max_count(3);
    names.set_max_bytes(5);
    names.set_length("sizes");
    Declare("objects").mutable_boxes()->set_max_count(3);
    features_["objects"].set_key("o");
    for (const char* name : {"cat", "hound"}) {
      Put("names").mutable_bytes_list()->add_value(name);
    }
    for (const char* side : {"o/xmin", "o/ymin", "o/xmax", "o/ymax"}) {
      for (const float v : {1.f, 2.f}) Put(side).mutable_float_list()->add_value(v);
    }
    Put("bytes").mutable_bytes_list()->add_value("value");
    Put("label").mutable_int64_list()->add_value(300);
    for (const int v : {1, 1000, -1}) Put("ids").mutable_int64_list()->add_value(v);
    for (const float v : {1.f, 2.f}) Put("floats").mutable_float_list()->add_value(v);
    tensorflow::Tensor tensor = MakeTensor(2, {2, 4});
    tensor.add_double_val(1);
    tensor.add_double_val(2);
    Put("boxes").mutable_bytes_list()->add_value(tensor.SerializeAsString());
    good_ = example_.SerializeAsString();
  }

  // Reads from a block of exactly the record's size, where a sanitizer sees each byte too many.
  void ReadExactly(absl::string_view record) {
    const std::unique_ptr<char[]> block(new char[record.size()]);
    std::memcpy(block.get(), record.data(), record.size());
    const absl::Status status =
        reader_->ReadRecord(absl::string_view(block.get(), record.size()), scratch_, values_);
    ++(status.ok() ? accepted_ : refused_);
    ASSERT_TRUE(status.ok() || IsSampleError(status)) << status;
    if (!status.ok()) return;
    size_t sum = 0;
    for (const FeatureValue& value : values_) {
      for (size_t i = 0; i < value.size_bytes; ++i) sum += static_cast<uint8_t>(value.data[i]);
    }
    sum_ += sum;
  }

  void SetUp() override {
    v1::Source source;
    source.mutable_tfrecord();
    auto reader = ExampleReader::Create(*SourceFeatures(source, features_), features_);
    ASSERT_TRUE(reader.ok());
    reader_ = *std::move(reader);
  }

  std::string good_;
  int accepted_ = 0;
  int refused_ = 0;
  size_t sum_ = 0;
};

TEST_F(MalformedExampleTest, EveryTruncationIsABadSample) {
  ReadExactly(good_);
  ASSERT_EQ(accepted_, 1);
  for (size_t size = 0; size < good_.size(); ++size) ReadExactly(good_.substr(0, size));
  EXPECT_EQ(accepted_, 1);
  EXPECT_EQ(refused_, static_cast<int>(good_.size()));
}

TEST_F(MalformedExampleTest, AnyByteMayTakeAnyValue) {
  for (size_t at = 0; at < good_.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = good_;
      bad[at] = static_cast<char>(value);
      ReadExactly(bad);
    }
  }
  EXPECT_GT(refused_, 0);
  EXPECT_GT(accepted_, 0);
}

TEST_F(MalformedExampleTest, BytesMayBeLeftOutOrDoubled) {
  for (size_t at = 0; at < good_.size(); ++at) {
    for (size_t count = 1; count <= 4 && at + count <= good_.size(); ++count) {
      ReadExactly(good_.substr(0, at) + good_.substr(at + count));
      ReadExactly(good_.substr(0, at + count) + good_.substr(at));
    }
  }
  EXPECT_GT(refused_, 0);
}

TEST_F(MalformedExampleTest, HugeLengthsAndEndlessNumbersAreRefused) {
  for (const std::string& tail :
       {std::string(11, '\xff'), std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        std::string("\x0a\xff\xff\xff\xff\x0f"), std::string("\x0b"), std::string("\x0c"),
        std::string("\x02\x00", 2), std::string(200, '\x0b')}) {
    absl::Status status = reader_->ReadRecord(good_ + tail, scratch_, values_);
    EXPECT_EQ(ReasonOf(status), reason::kMalformedExample) << status;
  }
}

}  // namespace
}  // namespace bulkhead
