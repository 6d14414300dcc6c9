#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "server/blocks/object_blocks.h"
#include "server/blocks/object_table.h"
#include "tests/blocks/write_block.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The files of a folder, and a table of objects with the same names.
class StoredImagesTest : public ::testing::Test {
 protected:
  StoredImagesTest() {
    std::filesystem::create_directory(cache_);
    auto& endings = *files_.source.mutable_image_folder()->mutable_extensions();
    for (const char* ending : {"jpg", "png"}) *endings.Add() = ending;
    files_.source.mutable_image_folder()->set_path("photos");
    objects_.source = files_.source;
  }

  void Put(const std::string& name, const std::string& bytes) {
    folder_.Write("photos/" + name, bytes);
    names_.emplace_back(name, bytes.size());
  }

  internal::v1::TableOfObjects Table(const std::string& base) const {
    ObjectTableWriter writer = ObjectTableWriter::Create(cache_, base).value();
    for (const auto& [name, size] : names_) {
      EXPECT_TRUE(writer.Add({name, "\"etag\"", size, 1'000'000'000, 0}).ok());
    }
    internal::v1::TableOfObjects table;
    table.set_key(writer.Finish().value());
    table.set_path(cache_ + "/" + table.key());
    table.set_spare_path(cache_ + "/spare-" + table.key());
    return table;
  }

  // Builds the index of `test` for a file of `table`.
  absl::StatusOr<uint64_t> Index(const internal::v1::TableOfObjects& table, TestSource& test,
                                 const std::string& path) const {
    internal::v1::BuildIndex request;
    *request.mutable_source() = test.source;
    request.set_keep_missing(test.keep_missing);
    internal::v1::ResolvedFile& file = *request.mutable_file();
    file.set_path(path);
    file.set_name("photos");
    if (!table.key().empty()) *file.mutable_table() = table;
    file.set_index_path(folder_ / "stored.index");
    const int fd = open(file.index_path().c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    auto records = BuildIndex(request, fd, nullptr);
    close(fd);
    if (records.ok()) *test.resolved.add_files() = file;
    return records;
  }

  static std::vector<std::string> RowsOf(const Source& source) {
    std::vector<std::string> rows;
    for (uint64_t i = 0; i < source.record_count(); ++i) rows.push_back(source.RecordName(i));
    return rows;
  }

  TempFolder folder_;
  const std::string cache_ = folder_ / "cache";
  std::vector<std::pair<std::string, uint64_t>> names_;
  TestSource files_;
  TestSource objects_;
};

TEST_F(StoredImagesTest, AFolderOfObjectsIsIndexedAsTheFolderOnDisk) {
  for (const char* name : {"cat/b.jpg", "cat/a.PNG", "cat/deep/er/c.jpg", "cat.old/a.jpg",
                           "cat/.hidden/a.jpg", ".git/a.jpg", "dog/notes.txt", "loose.jpg"}) {
    Put(name, name);
  }
  for (const bool unlabeled : {false, true}) {
    for (TestSource* test : {&files_, &objects_}) {
      test->source.mutable_image_folder()->set_unlabeled(unlabeled);
      test->resolved.clear_files();
    }
    ASSERT_TRUE(Index({}, files_, folder_ / "photos").ok());
    const std::vector<std::string> local = RowsOf(**files_.Open());
    const std::string index = ReadFile(folder_ / "stored.index");
    ASSERT_TRUE(Index(Table("s3://b/photos/"), objects_, "s3://b/photos/").ok());
    EXPECT_EQ(RowsOf(**objects_.Open()), local);
    EXPECT_EQ(local.size(), unlabeled ? 5u : 4u);
    const auto header = [](absl::string_view bytes) { return IndexHeader::Parse(bytes).value(); };
    EXPECT_EQ(header(ReadFile(folder_ / "stored.index")).checksum, header(index).checksum);
    EXPECT_EQ(header(ReadFile(folder_ / "stored.index")).names_bytes, header(index).names_bytes);
  }
}

TEST_F(StoredImagesTest, AKeyWithANamelessFolderIsRefused) {
  for (const char* name : {"/a.jpg", "/cat/a.jpg", "cat//a.jpg"}) {
    for (const bool unlabeled : {false, true}) {
      names_ = {{"cat/b.jpg", 1}, {name, 1}};
      objects_.source.mutable_image_folder()->set_unlabeled(unlabeled);
      const absl::Status refused =
          Index(Table("s3://b/photos/"), objects_, "s3://b/photos/").status();
      EXPECT_EQ(ReasonOf(refused), reason::kListInvalid) << refused;
      EXPECT_EQ(refused.message(),
                absl::StrCat("s3://b/photos/", name,
                             ": a folder in its key has no name (\"//\"); rename the object, or "
                             "name the images in an image_list by their URLs"));
    }
  }
  names_ = {{"cat/b.jpg", 1}, {"/notes.txt", 1}};
  EXPECT_TRUE(Index(Table("s3://b/photos/"), objects_, "s3://b/photos/").ok());
}

TEST_F(StoredImagesTest, WhatAQueryTellsApartHasANameOfItsOwn) {
  TestSource list;
  v1::ImageListSource& lines = *list.source.mutable_image_list();
  const std::string get = "https://h/get";
  for (const char* query :
       {"", "?X-Amz-Signature=1", "?id=1", "?id=1&X-Amz-Signature=2", "?id=2"}) {
    names_.emplace_back(get + query, 1);
    lines.add_entries(get + query + "\t0");
  }
  ASSERT_TRUE(Index(Table(""), list, "").ok());
  const auto source = list.Open().value();
  std::vector<std::string> names;
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < source->record_count(); ++i) {
    names.push_back(source->RecordName(i));
    EXPECT_EQ(source->Identity(i)->name, get);
    numbers.push_back(source->Identity(i)->number);
  }
  ASSERT_EQ(names.size(), 5u);
  for (int i : {0, 1}) EXPECT_TRUE(names[i] == get && numbers[i] == 0) << names[i];
  EXPECT_EQ(names[3], names[2]) << "another signature";
  EXPECT_EQ(numbers[3], numbers[2]);
  EXPECT_NE(names[4], names[2]);
  EXPECT_NE(numbers[4], numbers[2]);
  EXPECT_EQ(names[2].find("id="), std::string::npos) << "it may be a secret";
}

TEST_F(StoredImagesTest, ReadsWhatIsOnThisHostAndNamesWhatIsNot) {
  Put("cat/a.jpg", "bytes of a");
  Put("dog/b.jpg", "bytes of b");
  const internal::v1::TableOfObjects table = Table("s3://b/photos/");
  ASSERT_TRUE(Index(table, objects_, "s3://b/photos/").ok());
  const auto source = objects_.Open().value();
  const auto context = source->NewContext();
  Record record;
  const absl::Status absent = source->Read(1, *context, record);
  EXPECT_EQ(ReasonOf(absent), reason::kNotFetched);
  EXPECT_EQ(MetadataOf(absent, "key"), table.key());
  EXPECT_EQ(MetadataOf(absent, "begin"), "1");
  EXPECT_EQ(MetadataOf(absent, "end"), "2");
  EXPECT_THAT(std::string(absent.message()), HasSubstr("s3://b/photos/dog/b.jpg"));

  std::vector<ObjectPart> wanted;
  context->wanted = &wanted;
  source->Expect(1, *context);
  context->wanted = nullptr;
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].key, table.key());
  EXPECT_EQ(wanted[0].begin, 1u);
  EXPECT_EQ(wanted[0].bytes, 10u);

  // By a writer that comes later, and in the spare folder.
  const ObjectBlocks::Object object{0, 0, ObjectTable::Open(table.path()).value()};
  ObjectBlocks blocks = ObjectBlocks::OpenForWriting(table.spare_path(), object).value();
  ASSERT_TRUE(WriteBlock(blocks, 1, "bytes of b").ok());
  ASSERT_TRUE(source->Read(1, *context, record).ok());
  EXPECT_EQ(Text(record.values[0]), "bytes of b");
  EXPECT_EQ(Numbers<int64_t>(record.values[1])[0], 1);
  ASSERT_EQ(record.files.size(), 1u);
  EXPECT_NE(record.files[0].inode, 1u) << "identifies the object, wherever it is in a table";
}

TEST_F(StoredImagesTest, ATableOfOtherObjectsIsNotRead) {
  Put("cat/a.jpg", "bytes of a");
  ASSERT_TRUE(Index(Table("s3://b/photos/"), objects_, "s3://b/photos/").ok());
  names_[0].second = 11;
  *objects_.resolved.mutable_files(0)->mutable_table() = Table("s3://b/photos/");
  const auto source = objects_.Open().value();
  const auto context = source->NewContext();
  Record record;
  EXPECT_EQ(ReasonOf(source->Read(0, *context, record)), reason::kIndexDamaged);
}

TEST_F(StoredImagesTest, ATableThatIsGoneIsNamed) {
  Put("cat/a.jpg", "bytes of a");
  const internal::v1::TableOfObjects table = Table("s3://b/photos/");
  ASSERT_TRUE(Index(table, objects_, "s3://b/photos/").ok());
  std::filesystem::remove(table.path() + ".table");
  EXPECT_EQ(ReasonOf(objects_.Open().status()), reason::kFileUnreadable);
}

TEST_F(StoredImagesTest, AListFirstSaysWhichObjectsItNames) {
  TestSource list;
  list.source.mutable_image_list()->add_entries("s3://b/x.jpg 3");
  list.source.mutable_image_list()->add_entries("s3://b/missing.jpg 4");
  const absl::Status wants = Index({}, list, "").status();
  EXPECT_EQ(ReasonOf(wants), reason::kNotFetched);
  EXPECT_EQ(GetErrorInfo(wants)->metadata.count("urls"), 1u);

  internal::v1::BuildIndex request;
  *request.mutable_source() = list.source;
  request.set_urls_only(true);
  const std::string path = folder_ / "urls";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT_EQ(BuildIndex(request, fd, nullptr).value(), 2u);
  close(fd);
  const std::string bytes = ReadFile(path);
  EXPECT_EQ(IndexHeader::Parse(bytes)->record_count, 2u);
  EXPECT_EQ(bytes.substr(IndexHeader::kBytes, 32), "s3://b/x.jpg\ns3://b/missing.jpg\n");

  names_ = {{"s3://b/x.jpg", 7}};
  const absl::Status missing = Index(Table(""), list, "").status();
  EXPECT_EQ(ReasonOf(missing), reason::kFileNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("entries:2"));
  list.keep_missing = true;
  ASSERT_TRUE(Index(Table(""), list, "").ok());
  const auto source = list.Open().value();
  EXPECT_THAT(RowsOf(*source), ElementsAre("s3://b/x.jpg", "s3://b/missing.jpg"));
  EXPECT_EQ(std::string(source->Identity(0)->name), "s3://b/x.jpg");
}

TEST_F(StoredImagesTest, TheQueryOfAUrlIsNoPartOfItsName) {
  TestSource list;
  list.source.mutable_image_list()->add_entries("https://h/x.jpg?X-Amz-Signature=secret 3");
  names_ = {{"https://h/x.jpg?X-Amz-Signature=secret", 7}};
  ASSERT_TRUE(Index(Table(""), list, "").ok());
  const auto source = list.Open().value();
  EXPECT_EQ(source->RecordName(0), "https://h/x.jpg");
  EXPECT_EQ(std::string(source->Identity(0)->name), "https://h/x.jpg");
}

}  // namespace
}  // namespace bulkhead
