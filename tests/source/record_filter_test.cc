#include "server/source/index/record_filter.h"

#include <cmath>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// Whether the condition on feature `x` of this type keeps a record whose `x` has these bytes.
bool KeepsBytes(const std::string& tests, FeatureSignature feature, const void* data, size_t size) {
  feature.name = "x";
  google::protobuf::RepeatedPtrField<v1::Condition> conditions;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString("feature: 'x' " + tests, conditions.Add()));
  const auto filter = RecordFilter::Create(conditions, {feature});
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter.ok() && filter->Keeps({{static_cast<const std::byte*>(data), size, 1}});
}

bool KeepsInteger(const std::string& tests, int64_t value) {
  FeatureSignature feature;
  feature.dtype = v1::DTYPE_INT64;
  return KeepsBytes(tests, feature, &value, sizeof(value));
}

bool KeepsFloat(const std::string& tests, float value) {
  FeatureSignature feature;
  feature.dtype = v1::DTYPE_FLOAT32;
  return KeepsBytes(tests, feature, &value, sizeof(value));
}

bool KeepsText(const std::string& tests, const std::string& value) {
  FeatureSignature feature;
  feature.kind = FeatureSignature::Kind::kEncoded;
  feature.dtype = v1::DTYPE_BYTES;
  return KeepsBytes(tests, feature, value.data(), value.size());
}

TEST(RecordFilterTest, ListsOfIntegers) {
  for (int64_t value = -3; value <= 3; ++value) {
    EXPECT_EQ(KeepsInteger("in: [2, -1]", value), value == 2 || value == -1) << value;
    EXPECT_EQ(KeepsInteger("not_in: [2, -1]", value), value != 2 && value != -1) << value;
    EXPECT_EQ(KeepsInteger("in: [2, -1] not_in: 2", value), value == -1) << value;
  }
}

TEST(RecordFilterTest, BoundsAreIncludedAndMayBeFractions) {
  for (int64_t value = -3; value <= 3; ++value) {
    EXPECT_EQ(KeepsInteger("min: -1 max: 2", value), value >= -1 && value <= 2) << value;
    EXPECT_EQ(KeepsInteger("min: -1.5", value), value >= -1) << value;
    EXPECT_EQ(KeepsInteger("max: 1.5", value), value <= 1) << value;
    EXPECT_EQ(KeepsInteger("in: [0, 1, 2] min: 1 max: 2 not_in: 2", value), value == 1) << value;
  }
}

// Neighbours of 2^53 and of the ends of int64 have no doubles of their own.
TEST(RecordFilterTest, ComparesLargeIntegersExactly) {
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;
  EXPECT_FALSE(KeepsInteger("max: 9007199254740992", kOdd));
  EXPECT_TRUE(KeepsInteger("max: 9007199254740992", kOdd - 1));
  EXPECT_FALSE(KeepsInteger("max: 9.2233720368547748e18", INT64_MAX)) << "the double below 2^63";
  EXPECT_TRUE(KeepsInteger("max: 9.2233720368547758e18", INT64_MAX)) << "2^63";
  EXPECT_FALSE(KeepsInteger("min: 9.2233720368547758e18", INT64_MAX));
  EXPECT_TRUE(KeepsInteger("min: -9.2233720368547758e18", INT64_MIN));
  EXPECT_TRUE(KeepsInteger("max: -9.2233720368547758e18", INT64_MIN));
  EXPECT_FALSE(KeepsInteger("max: -9.3e18", INT64_MIN));
  EXPECT_TRUE(KeepsInteger("min: -1e300 max: 1e300", INT64_MIN));
}

TEST(RecordFilterTest, FloatsAreComparedAsFloats) {
  EXPECT_TRUE(KeepsFloat("max: 0.3", 0.3f)) << "although 0.3f is above 0.3";
  EXPECT_FALSE(KeepsFloat("max: 0.3", std::nextafter(0.3f, 1.0f)));
  EXPECT_TRUE(KeepsFloat("min: 0.7", 0.7f)) << "although 0.7f is below 0.7";
  EXPECT_FALSE(KeepsFloat("min: 0.7", std::nextafter(0.7f, 0.0f)));
  EXPECT_TRUE(KeepsFloat("in: 3", 3.0f));
  EXPECT_FALSE(KeepsFloat("in: 3", 3.5f));
  EXPECT_FALSE(KeepsFloat("not_in: 3", 3.0f));
  EXPECT_TRUE(KeepsFloat("not_in: 3", 3.5f));
  EXPECT_FALSE(KeepsFloat("max: 1e300", INFINITY)) << "a finite bound stays finite";
  EXPECT_TRUE(KeepsFloat("min: 0", INFINITY));
}

TEST(RecordFilterTest, NanLiesWithinNoBounds) {
  EXPECT_FALSE(KeepsFloat("min: -inf", NAN));
  EXPECT_FALSE(KeepsFloat("max: inf", NAN));
  EXPECT_FALSE(KeepsFloat("in: 0", NAN));
  EXPECT_TRUE(KeepsFloat("not_in: 0", NAN));
}

TEST(RecordFilterTest, TextsAreComparedAsBytes) {
  EXPECT_TRUE(KeepsText("text_in: ['cat', 'dog']", "dog"));
  EXPECT_FALSE(KeepsText("text_in: ['cat', 'dog']", "do"));
  EXPECT_FALSE(KeepsText("text_in: 'cat'", std::string("cat\0", 4)));
  EXPECT_FALSE(KeepsText("text_not_in: ['cat', 'dog']", "dog"));
  EXPECT_TRUE(KeepsText("text_not_in: ['cat', 'dog']", ""));
  EXPECT_TRUE(KeepsText("text_in: ''", ""));
}

TEST(RecordFilterTest, EveryConditionMustHold) {
  google::protobuf::RepeatedPtrField<v1::Condition> conditions;
  for (const char* text : {"feature: 'a' min: 1", "feature: 'b' max: 1"}) {
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, conditions.Add()));
  }
  FeatureSignature a, b;
  a.name = "a";
  b.name = "b";
  a.dtype = b.dtype = v1::DTYPE_INT64;
  const auto filter = RecordFilter::Create(conditions, {a, b});
  ASSERT_TRUE(filter.ok());
  for (int64_t x = 0; x < 3; ++x) {
    for (int64_t y = 0; y < 3; ++y) {
      const auto bytes = [](const int64_t& v) { return reinterpret_cast<const std::byte*>(&v); };
      EXPECT_EQ(filter->Keeps({{bytes(x), 8, 1}, {bytes(y), 8, 1}}), x >= 1 && y <= 1);
    }
  }
}

TEST(RecordFilterTest, RefusesAFeatureThatIsNotThere) {
  google::protobuf::RepeatedPtrField<v1::Condition> conditions;
  conditions.Add()->set_feature("x");
  EXPECT_EQ(GetErrorInfo(RecordFilter::Create(conditions, {}).status())->reason,
            reason::kSpecInvalid);
  FeatureSignature list;
  list.name = "x";
  list.dtype = v1::DTYPE_INT64;
  list.shape = {3};
  EXPECT_FALSE(RecordFilter::Create(conditions, {list}).ok());
}

}  // namespace
}  // namespace bulkhead
