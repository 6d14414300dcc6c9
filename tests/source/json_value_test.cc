#include "server/source/tar/json_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "server/base/random.h"
#include "server/source/tar/json_cursor.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

// The text that `steps` lead to; "absent", or the reason of the error.
std::string Found(const std::string& text, const std::vector<std::string>& steps) {
  const auto found = FindJson(text, steps);
  if (!found.ok()) return ReasonOf(found.status());
  return found->has_value() ? std::string(**found) : "absent";
}

TEST(FindJsonTest, FollowsNamesAndNumbers) {
  const std::string text = R"( {"a": {"b": [10, {"c": "x"}, null]}, "a/b": 2, "": 3, "n": -1e3} )";
  EXPECT_EQ(Found(text, {"a", "b", "0"}), "10");
  EXPECT_EQ(Found(text, {"a", "b", "1", "c"}), "\"x\"");
  EXPECT_EQ(Found(text, {"a/b"}), "2");
  EXPECT_EQ(Found(text, {"n"}), "-1e3");
  EXPECT_EQ(Found("[1, 2]", {}), "[1, 2]");
  EXPECT_EQ(Found("\xef\xbb\xbf 7", {}), "7");
  for (const std::vector<std::string>& nowhere : {std::vector<std::string>{"b"},
                                                  {"a", "b", "2"},
                                                  {"a", "b", "3"},
                                                  {"a", "b", "00"},
                                                  {"a", "b", "0", "c"},
                                                  {"n", "n"}}) {
    EXPECT_EQ(Found(text, nowhere), "absent");
  }
}

TEST(FindJsonTest, OfTwoFieldsOfOneNameTheLastCountsAsInPython) {
  EXPECT_EQ(Found(R"({"a": 1, "b": 0, "a": 2})", {"a"}), "2");
  EXPECT_EQ(Found(R"({"a": {"b": 1}, "a": {}})", {"a", "b"}), "absent");
  EXPECT_EQ(Found(R"({"\u0061": 1})", {"a"}), "1");
}

TEST(FindJsonTest, RefusesWhatIsNoJsonWhereverItStands) {
  for (const std::string text :
       {"", "{", "[1,]", "{\"a\": 1,}", "{a: 1}", "{\"a\" 1}", "1 2", "nul", "\"open", "[1", "'a'",
        "{\"b\": foo}", "[1] x", "{\"b\": \"tab\there\"}", "-", "+1"}) {
    EXPECT_EQ(Found(text, {"a"}), reason::kMalformedExample) << text;
  }
  const std::string deep(JsonCursor::kMaxDepth + 1, '[');
  EXPECT_EQ(Found(deep + std::string(deep.size(), ']'), {}), reason::kMalformedExample);
}

TEST(FindJsonTest, NoTextHarmsIt) {
  const std::string whole =
      R"({"a": [1.5, {"b": "x\n\ud83d\ude00\u00e9"}], "c": {"d": [true, null]}})";
  SampleRandom random(1, 2, 3, 4);
  ByteBuffer buffer;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole.substr(0, whole.size() - random.NextBelow(4));
    for (int i = 0; i < 3; ++i) {
      text[random.NextBelow(static_cast<uint32_t>(text.size()))] =
          "{}[]\"\\,:0ud"[random.NextBelow(11)];
    }
    for (const std::vector<std::string>& steps :
         {std::vector<std::string>{"a", "1", "b"}, {"c", "d", "0"}, {}}) {
      const auto found = FindJson(text, steps);
      if (found.ok() && found->has_value()) JsonString(**found, buffer).status().IgnoreError();
    }
  }
}

std::string Decoded(const std::string& value) {
  ByteBuffer buffer;
  const auto bytes = JsonString(value, buffer);
  return bytes.ok() ? std::string(*bytes) : ReasonOf(bytes.status());
}

TEST(JsonStringTest, GivesBytesInUtf8) {
  EXPECT_EQ(Decoded(R"("plain é")"), "plain é");
  EXPECT_EQ(Decoded(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(Decoded(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "Aé€😀");
  EXPECT_EQ(Decoded(R"("a\u0000b")"), std::string("a\0b", 3));
  EXPECT_EQ(Decoded(R"("\ud83dx\ude00")"), "\xef\xbf\xbdx\xef\xbf\xbd");
  for (const char* damaged : {R"("\x")", R"("\u12")", R"("\u12g4")", R"("\u+123")"}) {
    EXPECT_EQ(Decoded(damaged), reason::kMalformedExample) << damaged;
  }
  EXPECT_EQ(Decoded("1"), reason::kWrongDType);
  EXPECT_EQ(Decoded("[\"a\"]"), reason::kWrongDType);
}

FeatureSignature Signature(v1::DType dtype, std::vector<int64_t> shape, bool variable = false) {
  FeatureSignature signature;
  signature.dtype = dtype;
  signature.shape = std::move(shape);
  signature.variable = variable;
  return signature;
}

// The elements as T, and how many rows they are.
template <typename T>
std::pair<std::vector<T>, int64_t> Elements(const std::string& value,
                                            const FeatureSignature& signature) {
  JsonScratch scratch;
  TensorValue numbers;
  const absl::Status status = JsonNumbers(value, signature, scratch, numbers);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<T> elements(numbers.bytes.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), numbers.bytes.data(), numbers.bytes.size());
  return {elements, numbers.count};
}

std::string Refused(const std::string& value, const FeatureSignature& signature) {
  JsonScratch scratch;
  TensorValue numbers;
  return ReasonOf(JsonNumbers(value, signature, scratch, numbers));
}

TEST(JsonNumbersTest, GivesEveryTypeAndShape) {
  using Floats = std::pair<std::vector<float>, int64_t>;
  using Integers = std::pair<std::vector<int64_t>, int64_t>;
  EXPECT_EQ(Elements<int64_t>("-9223372036854775808", Signature(v1::DTYPE_INT64, {})),
            Integers({INT64_MIN}, 1));
  EXPECT_EQ(Elements<int64_t>("[ true , false ]", Signature(v1::DTYPE_INT64, {2})),
            Integers({1, 0}, 1));
  EXPECT_EQ(Elements<float>("[[1,2],[3,0.1]]", Signature(v1::DTYPE_FLOAT32, {5, 2}, true)),
            Floats({1, 2, 3, 0.1f}, 2));
  EXPECT_EQ(Elements<float>("[]", Signature(v1::DTYPE_FLOAT32, {5, 2}, true)), Floats({}, 0));
  EXPECT_EQ(Elements<double>("[1e-3]", Signature(v1::DTYPE_FLOAT64, {1})).first[0], 1e-3);
  EXPECT_EQ(Elements<uint8_t>("[0,255]", Signature(v1::DTYPE_UINT8, {2})).first[1], 255);
  EXPECT_EQ(Elements<int16_t>("[-32768]", Signature(v1::DTYPE_INT16, {1})).first[0], -32768);
  EXPECT_TRUE(std::isnan(Elements<float>("NaN", Signature(v1::DTYPE_FLOAT32, {})).first[0]));
  EXPECT_EQ(Elements<float>("-Infinity", Signature(v1::DTYPE_FLOAT32, {})).first[0], -INFINITY);
}

TEST(JsonNumbersTest, RefusesOtherValuesAndShapes) {
  const FeatureSignature rows = Signature(v1::DTYPE_FLOAT32, {2, 2}, true);
  EXPECT_EQ(Refused("[[1,2],[3]]", rows), reason::kWrongShape);
  EXPECT_EQ(Refused("[[1,2,3]]", rows), reason::kWrongShape);
  EXPECT_EQ(Refused("[1,2]", rows), reason::kWrongShape);
  EXPECT_EQ(Refused("1", rows), reason::kWrongShape);
  EXPECT_EQ(Refused("[[[1],2]]", rows), reason::kWrongShape);
  EXPECT_EQ(Refused("[[1,2],[1,2],[1,2]]", rows), reason::kOverBound);
  EXPECT_EQ(Refused("[[1,\"2\"]]", rows), reason::kWrongDType);
  EXPECT_EQ(Refused("[[1,null]]", rows), reason::kWrongDType);
  EXPECT_EQ(Refused("[[1,{}]]", rows), reason::kWrongDType);
  EXPECT_EQ(Refused("1.0", Signature(v1::DTYPE_INT64, {})), reason::kWrongDType);
  EXPECT_EQ(Refused("9223372036854775808", Signature(v1::DTYPE_INT64, {})), reason::kWrongDType);
  EXPECT_EQ(Refused("[256]", Signature(v1::DTYPE_UINT8, {1})), reason::kWrongDType);
  EXPECT_EQ(Refused("[-1]", Signature(v1::DTYPE_UINT16, {1})), reason::kWrongDType);
  EXPECT_EQ(Refused("[2]", Signature(v1::DTYPE_BOOL, {1})), reason::kWrongDType);
}

}  // namespace
}  // namespace bulkhead
