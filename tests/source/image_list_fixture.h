#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/class_names.h"
#include "tests/source/source_testing.h"

namespace bulkhead {

// A folder with images a.jpg, b.jpg, "c d.jpg", sub/e.jpg whose bytes are their names.
class ImageListTest : public ::testing::Test {
 protected:
  ImageListTest() {
    for (const char* name : {"a.jpg", "b.jpg", "c d.jpg", "sub/e.jpg"}) folder_.Write(name, name);
    list_ = test_.source.mutable_image_list();
  }

  absl::StatusOr<uint64_t> Index(absl::string_view text) {
    return test_.Index(folder_.Write("train.txt", text));
  }

  // "image label path" of every record, features in their sorted order.
  std::vector<std::string> Rows() {
    std::vector<std::string> rows;
    const auto source = test_.Open();
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return rows;
    const auto context = (*source)->NewContext();
    Record record;
    for (uint64_t i = 0; i < (*source)->record_count(); ++i) {
      const absl::Status status = (*source)->Read(i, *context, record);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return rows;
      std::string row;
      for (size_t f = 0; f < record.values.size(); ++f) {
        const v1::DType dtype = (*source)->features()[f].dtype;
        const FeatureValue& value = record.values[f];
        absl::StrAppend(&row, f == 0 ? "" : "|",
                        dtype == v1::DTYPE_INT64     ? absl::StrCat(Numbers<int64_t>(value)[0])
                        : dtype == v1::DTYPE_FLOAT32 ? absl::StrCat(Numbers<float>(value)[0])
                                                     : Text(value));
      }
      rows.push_back(row);
      origin_ = record.origin;
    }
    return rows;
  }

  // The message and reason LIST_INVALID of a list that must be refused.
  std::string Refusal(absl::string_view text) {
    const auto records = Index(text);
    EXPECT_EQ(ReasonOf(records.status()), reason::kListInvalid) << records.status();
    return std::string(records.status().message());
  }

  TempFolder folder_;
  TestSource test_;
  v1::ImageListSource* list_;
  // What the records are called when the list goes by `list_name`.
  std::vector<std::string> NamesIn(const std::string& list_name) {
    test_.resolved.mutable_files(0)->set_name(list_name);
    const auto source = test_.Open();
    EXPECT_TRUE(source.ok()) << source.status();
    std::vector<std::string> names;
    for (uint64_t i = 0; i < (*source)->record_count(); ++i) {
      names.push_back((*source)->RecordName(i));
    }
    return names;
  }

  // As the service reads them.
  ClassNames NamesInIndex() const {
    const std::string bytes = ReadFile(test_.resolved.files(0).index_path());
    const auto header = IndexHeader::Parse(bytes);
    EXPECT_TRUE(header.ok()) << header.status();
    const auto names =
        ParseClassNames(absl::string_view(bytes).substr(IndexHeader::kBytes, header->names_bytes));
    EXPECT_TRUE(names.ok()) << names.status();
    return names.ok() ? *names : ClassNames();
  }

  std::string origin_;
};

}  // namespace bulkhead
