// The text of an image list: lines, columns, quotes, names of classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/class_names.h"
#include "server/source/images/list_line.h"
#include "tests/source/image_list_fixture.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ImageListTest, RecordsAreCalledByTheirPathsAsTheListWritesThem) {
  ASSERT_TRUE(Index("a.jpg 1\n./sub/../b.jpg 2\nsub//e.jpg 3\n").ok());
  EXPECT_THAT(NamesIn("train.txt"), ElementsAre("a.jpg", "b.jpg", "sub/e.jpg"));
  EXPECT_THAT(NamesIn("/data/train.txt"), ElementsAre("a.jpg", "b.jpg", "sub/e.jpg"));
  Rows();
  EXPECT_EQ(origin_, "/data/train.txt:3 (sub/e.jpg)");
}

TEST_F(ImageListTest, ReadsSpacesTabsCommasCommentsAndCrlf) {
  ASSERT_TRUE(Index("# comment\n\na.jpg 1\nsub/e.jpg   -7\n").ok());
  EXPECT_THAT(Rows(), ElementsAre("a.jpg|1|a.jpg", "sub/e.jpg|-7|sub/e.jpg"));
  EXPECT_EQ(origin_, "train.txt:4 (sub/e.jpg)");
  test_.resolved.clear_files();
  ASSERT_TRUE(Index("\xef\xbb\xbf"
                    "c d.jpg\t3\r\na.jpg\t4")
                  .ok());
  EXPECT_THAT(Rows(), ElementsAre("c d.jpg|3|c d.jpg", "a.jpg|4|a.jpg"));
  test_.resolved.clear_files();
  ASSERT_TRUE(Index("c d.jpg, 5\n").ok());
  EXPECT_THAT(Rows(), ElementsAre("c d.jpg|5|c d.jpg"));
}

TEST_F(ImageListTest, TakesSeveralPathAndLabelColumnsAndAHeader) {
  list_->set_header(true);
  for (const char* name : {"right", "left"}) list_->add_images(name);
  for (const char* name : {"z", "a"}) list_->add_labels(name);
  list_->set_label_dtype(v1::DTYPE_FLOAT32);
  ASSERT_TRUE(Index("right,left,z,a\na.jpg,b.jpg,0.5,-2\n").ok());
  EXPECT_THAT(Rows(), ElementsAre("-2|b.jpg|a.jpg|a.jpg|0.5"));  // a, left, path, right, z
}

TEST_F(ImageListTest, UnlabeledListTakesTheWholeLineAsPath) {
  list_->set_unlabeled(true);
  ASSERT_TRUE(Index("c d.jpg\na.jpg\n").ok());
  EXPECT_THAT(Rows(), ElementsAre("c d.jpg|c d.jpg", "a.jpg|a.jpg"));
}

TEST_F(ImageListTest, TakesInlineEntries) {
  test_.resolved.set_base_dir(folder_.path());
  list_->add_entries("a.jpg 1");
  list_->add_entries(folder_ / "b.jpg" + " 2");
  const auto records = test_.Index("");
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(Rows(), ElementsAre("a.jpg|1|a.jpg", absl::StrCat("b.jpg|2|", folder_ / "b.jpg")));
}

TEST_F(ImageListTest, RefusalsNameTheLine) {
  EXPECT_THAT(Refusal("a.jpg 1\n\n# x\nb.jpg\n"), HasSubstr("train.txt:4: has 1 column"));
  EXPECT_THAT(Refusal("a.jpg 1 2\n"), HasSubstr("train.txt:1: has 3 columns"));
  EXPECT_THAT(Refusal("a.jpg 1\nb.jpg cat\n"), HasSubstr("train.txt:2: label `cat`"));
  EXPECT_THAT(Refusal("a.jpg 1.5\n"), HasSubstr("label_dtype: float32"));
  EXPECT_THAT(Refusal("a.jpg 9223372036854775808\n"), HasSubstr("train.txt:1"));
  EXPECT_THAT(Refusal("\"a.jpg\" 1\n"), HasSubstr("delimiter: comma"));
  EXPECT_THAT(Refusal("'a.jpg',1\n"), HasSubstr("quote"));
  EXPECT_THAT(Refusal(",1\n"), HasSubstr("train.txt:1: has an empty path"));
  EXPECT_THAT(Refusal(absl::string_view("a.jpg 1\nb\0.jpg 2\n", 18)), HasSubstr("train.txt:2"));
  EXPECT_THAT(Refusal(absl::StrCat("a.jpg 1\n", std::string(257, 'x'), " 1\n")),
              HasSubstr("train.txt:2: its path has 257 bytes"));
  EXPECT_THAT(Refusal("a.jpg 1\n" + std::string(400'000, 'x')), HasSubstr("train.txt:2"));
}

TEST_F(ImageListTest, QuotedColumnsAreReadBetweenCommas) {
  folder_.Write("f, \"g\".jpg", "f");
  ASSERT_TRUE(Index("\xef\xbb\xbf\"f, \"\"g\"\".jpg\", \"dog, big\"\r\n\"a.jpg\",\"say "
                    "\"\"cat\"\"\" \r\nb.jpg,it\"s\r\n")
                  .ok());
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"dog, big", "it\"s", "say \"cat\""}}}));
  EXPECT_THAT(Rows(), ElementsAre("f|0|f, \"g\".jpg", "a.jpg|2|a.jpg", "b.jpg|1|b.jpg"));
  test_.resolved.clear_files();
  list_->add_classes("");  // what `""` is
  list_->add_classes("x");
  list_->set_delimiter(v1::DELIMITER_COMMA);
  EXPECT_THAT(Refusal("a.jpg,\"\"\n"), HasSubstr("has an empty label"));
  EXPECT_THAT(Refusal("\"\",x\n"), HasSubstr("has an empty path"));
}

TEST_F(ImageListTest, SemicolonsSeparate) {
  ASSERT_TRUE(Index("c d.jpg;\"dog; big\"\na.jpg;cat\n").ok());
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"cat", "dog; big"}}}));
  EXPECT_THAT(Rows(), ElementsAre("c d.jpg|1|c d.jpg", "a.jpg|0|a.jpg"));
  test_.resolved.clear_files();
  EXPECT_THAT(Refusal("a.jpg;1;2\n"), HasSubstr("has 3 columns separated by semicolons"));
  list_->set_delimiter(v1::DELIMITER_SEMICOLON);
  EXPECT_THAT(Refusal("a.jpg,1\n"), AllOf(HasSubstr("has 1 column separated by semicolons"),
                                          HasSubstr("write `delimiter: comma`")));
}

TEST_F(ImageListTest, QuotesThatDoNotCloseNameTheirLine) {
  const auto open = HasSubstr("train.txt:2: column 2 begins with a quote that is not closed");
  EXPECT_THAT(Refusal("a.jpg,dog\nb.jpg,\"cat\n"), open);
  EXPECT_THAT(Refusal("a.jpg,dog\nb.jpg,\"cat\"\"\n"), open);
  EXPECT_THAT(Refusal("a.jpg,dog\nb.jpg,\"\n"), open);
  EXPECT_THAT(Refusal("a.jpg,dog\nb.jpg,\"c\nat\"\n"), open);  // as a line break is read
  EXPECT_THAT(Refusal("a.jpg,dog\n\"b.jpg\"x,cat\n"),
              HasSubstr("train.txt:2: column 1 goes on after its closing quote"));
  test_.resolved.set_base_dir(folder_.path());
  list_->add_entries("a.jpg,\"do\ng\"");
  EXPECT_THAT(std::string(test_.Index("").status().message()),
              HasSubstr("entries:1: column 2 begins with a quote"));
}

TEST_F(ImageListTest, QuotesBetweenTabsAreLettersAndListsWithoutQuotesStayTheSame) {
  ASSERT_TRUE(Index("a.jpg\t\"dog\"\n").ok());
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"\"dog\""}}}));
  // The identity of a list is that of its bytes, whatever they mean.
  test_.resolved.clear_files();
  ASSERT_TRUE(Index("a.jpg,1\nb.jpg,2\n").ok());
  const auto header = IndexHeader::Parse(ReadFile(test_.resolved.files(0).index_path()));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(absl::BytesToHexString(absl::string_view(
                reinterpret_cast<const char*>(header->checksum.data()), header->checksum.size())),
            "7e71350209b38377b9a549d6f5e9b9891f3f79a09a8d0d34cd2fd92e79896b20");
}

// Whatever a line holds, it is read or refused, and no column that lies in it reaches beyond it.
TEST_F(ImageListTest, AnyMixtureOfQuotesCommasAndBlanksIsReadOrRefused) {
  const std::string letters = "\",\" a\"\t\r";
  ListLine line;
  size_t read = 0, refused = 0;
  for (size_t number = 0; number < 32'768; ++number) {  // 8^5
    std::string text;
    for (size_t i = 0, rest = number; i < 5; ++i, rest /= 8) text += letters[rest % 8];
    const std::unique_ptr<char[]> block(new char[text.size()]);  // exactly its size
    std::memcpy(block.get(), text.data(), text.size());
    const std::string problem = line.Split(absl::string_view(block.get(), text.size()), ',');
    ++(problem.empty() ? read : refused);
    size_t bytes = 0;
    for (const absl::string_view column : line.columns()) {
      bytes += column.size() + 1;
      const auto begin = reinterpret_cast<uintptr_t>(column.data());
      const auto block_begin = reinterpret_cast<uintptr_t>(block.get());
      const auto block_end = block_begin + text.size();
      if (begin < block_begin || begin >= block_end) continue;  // it was quoted
      ASSERT_LE(begin + column.size(), block_end) << text;
    }
    ASSERT_LE(bytes, text.size() + 1) << text;
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

TEST_F(ImageListTest, ClassesMayStandInAFile) {
  list_->set_classes_file("names.txt");
  test_.classes = folder_.Write("names.txt",
                                "\xef\xbb\xbf"
                                "emu\r\n great ape \r\ncat\r\n\r\n");
  ASSERT_TRUE(Index("a.jpg,cat\nb.jpg,great ape\n").ok());
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"emu", "great ape", "cat"}}}));
  EXPECT_THAT(Rows(), ElementsAre("a.jpg|2|a.jpg", "b.jpg|1|b.jpg"));
  EXPECT_THAT(Refusal("a.jpg,cot\n"), HasSubstr("did you mean `cat`?"));
}

TEST_F(ImageListTest, AClassesFileThatCannotBeUsedNamesItsLine) {
  list_->set_classes_file("names.txt");
  const auto refusal = [&](absl::string_view names) {
    test_.classes = folder_.Write("names.txt", names);
    return Refusal("a.jpg cat\n");
  };
  EXPECT_THAT(refusal(""), HasSubstr("names.txt:1: is empty"));
  EXPECT_THAT(refusal("cat\n\ndog\n"), HasSubstr("names.txt:2: is empty"));
  EXPECT_THAT(refusal("cat\ndog\ncat\n"), HasSubstr("names.txt:3: names `cat` again, as line 1"));
  EXPECT_THAT(refusal("cat\nd\xff\n"), HasSubstr("names.txt:2: is not text"));
  EXPECT_THAT(refusal(absl::string_view("c\0t\n", 4)), HasSubstr("names.txt:1: is not text"));
  std::string many = "cat\n";
  for (int i = 0; i < 300'000; ++i) absl::StrAppend(&many, i, "\n");
  EXPECT_THAT(refusal(many), HasSubstr("more than 1 MiB"));
  EXPECT_THAT(refusal(std::string(3 << 20, 'x')), HasSubstr("more than 1 MiB"));
  const TempFolder outside;
  test_.resolved.add_roots(folder_.path());
  test_.classes = outside.Write("names.txt", "cat\n");
  EXPECT_EQ(ReasonOf(Index("a.jpg cat\n").status()), reason::kPathNotAllowed);
}

TEST_F(ImageListTest, MalformedLinesThatAreKeptAreSampleErrors) {
  test_.keep_malformed = true;
  const auto records = Index(absl::StrCat("a.jpg cat\nb.jpg\n", std::string(400'000, 'x'),
                                          "\n# note\nb.jpg 7\nsub/e.jpg dog\n"));
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, 5);
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"cat", "dog"}}}));
  const auto source = test_.Open();
  ASSERT_TRUE(source.ok()) << source.status();
  const auto context = (*source)->NewContext();
  Record record;
  const auto refused = [&](uint64_t index) {
    (*source)->Expect(index, *context);
    const absl::Status status = (*source)->Read(index, *context, record);
    EXPECT_TRUE(IsSampleError(status)) << status;
    EXPECT_EQ(ReasonOf(status), reason::kListInvalid);
    EXPECT_TRUE(IsSampleError((*source)->Identity(index).status()));
    EXPECT_EQ((*source)->RecordName(index), absl::StrCat("train.txt:", record.line));
    EXPECT_EQ(record.list, "train.txt");
    return std::string(status.message());
  };
  EXPECT_TRUE((*source)->Read(0, *context, record).ok());
  EXPECT_THAT(refused(1), HasSubstr("train.txt:2: has 1 column"));
  EXPECT_THAT(refused(2), HasSubstr("train.txt:3: is longer than 64 KiB"));
  EXPECT_THAT(refused(3), HasSubstr("train.txt:5: label `7` is a number, but that of line 1"));
  ASSERT_TRUE((*source)->Read(4, *context, record).ok());
  EXPECT_THAT(Numbers<int64_t>(record.values[1]), ElementsAre(1));
}

TEST_F(ImageListTest, NamesOfClassesAreNumberedInTheirSortedOrder) {
  ASSERT_TRUE(Index("a.jpg emu\nb.jpg cat\nsub/e.jpg dog\na.jpg cat\n").ok());
  EXPECT_THAT(Rows(), ElementsAre("a.jpg|2|a.jpg", "b.jpg|0|b.jpg", "sub/e.jpg|1|sub/e.jpg",
                                  "a.jpg|0|a.jpg"));
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"cat", "dog", "emu"}}}));
}

TEST_F(ImageListTest, ReadingAheadForNamesIsProgress) {
  std::string text;
  while (text.size() < (1 << 20)) text += "a.jpg cat\n";
  std::vector<uint64_t> ahead;  // bytes that were reported before the first sample
  uint64_t before = 0;
  const auto records =
      test_.Index(folder_.Write("train.txt", text), [&](uint64_t count, uint64_t bytes) {
        EXPECT_GE(bytes, before);
        before = bytes;
        if (count == 0) ahead.push_back(bytes);
      });
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_GE(ahead.size(), 4u);
  EXPECT_GT(ahead.back(), text.size() / 3);
  EXPECT_GT(before, text.size() * 9 / 10);
  EXPECT_LE(before, text.size());
}

TEST_F(ImageListTest, EachColumnIsOfNumbersOrOfNames) {
  for (const char* name : {"animal", "weight", "colour"}) list_->add_labels(name);
  ASSERT_TRUE(Index("a.jpg,dog,7,red\nb.jpg,cat,8,blue\n").ok());
  // animal, colour, image, path, weight
  EXPECT_THAT(Rows(), ElementsAre("1|1|a.jpg|a.jpg|7", "0|0|b.jpg|b.jpg|8"));
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"animal", {"cat", "dog"}}, {"colour", {"blue", "red"}}}));
}

TEST_F(ImageListTest, GivenClassesDecideTheNumbers) {
  for (const char* name : {"emu", "3", "cat"}) list_->add_classes(name);
  ASSERT_TRUE(Index("a.jpg 3\nb.jpg emu\n").ok());
  EXPECT_THAT(Rows(), ElementsAre("a.jpg|1|a.jpg", "b.jpg|0|b.jpg"));
  EXPECT_EQ(NamesInIndex(), (ClassNames{{"label", {"emu", "3", "cat"}}}));
  EXPECT_THAT(Refusal("a.jpg emu\nb.jpg cot\n"),
              HasSubstr("train.txt:2: label `cot` is not among the 3 `classes`; did you mean "
                        "`cat`?"));
  test_.resolved.clear_files();
  ASSERT_TRUE(Index("a.jpg 2\nb.jpg 0\n").ok());  // no class is called 2
  EXPECT_THAT(Rows(), ElementsAre("a.jpg|2|a.jpg", "b.jpg|0|b.jpg"));
  EXPECT_THAT(Refusal("a.jpg 0\nb.jpg 3\n"), HasSubstr("train.txt:2: label 3 is none of the 3"));
}

TEST_F(ImageListTest, NamesAndNumbersInOneColumnAreRefused) {
  EXPECT_THAT(
      Refusal("a.jpg 3\nb.jpg cat\n"),
      HasSubstr("train.txt:2: label `cat` is a name, but that of line 1 is the number `3`"));
  // The commonest cause of the other: titles.
  EXPECT_THAT(Refusal("image,class\na.jpg,3\n"),
              AllOf(HasSubstr("train.txt:2: label `3` is a number"), HasSubstr("`header: true`")));
  EXPECT_THAT(Refusal("a.jpg,cat\nb.jpg,\n"), HasSubstr("train.txt:2: has an empty label"));
}

TEST_F(ImageListTest, TitlesAboveNamesAreNoSample) {
  test_.keep_missing = true;
  const auto records = Index("image class\na.jpg cat\n");
  EXPECT_EQ(ReasonOf(records.status()), reason::kFileNotFound);
  EXPECT_THAT(std::string(records.status().message()),
              AllOf(HasSubstr("train.txt:1: image"), HasSubstr("write `header: true`")));
}

TEST_F(ImageListTest, TheIndexThatPandasWritesIsNamed) {
  EXPECT_THAT(Refusal(",path,label\n0,a.jpg,cat\n"),
              AllOf(HasSubstr("train.txt:1: has 3 columns"),
                    HasSubstr("the first column is the index that pandas writes: write the list "
                              "with to_csv(..., index=False), or remove that column, and write "
                              "`header: true`")));
  EXPECT_THAT(Refusal("0,a.jpg,cat\n1,b.jpg,cat\n"),
              HasSubstr("the first column may be the index that pandas writes"));
  EXPECT_THAT(Refusal("a.jpg,cat,1\n"), HasSubstr("remove the rest"));
  list_->set_header(true);
  EXPECT_THAT(Refusal(",path,label\n0,a.jpg,cat\n"),
              AllOf(HasSubstr("train.txt:2: has 3 columns"),
                    HasSubstr("the first column is the index that pandas writes"),
                    testing::Not(HasSubstr("header"))));
  EXPECT_THAT(Refusal("\tpath\tlabel\n0\ta.jpg\tcat\n"),
              HasSubstr("the first column is the index that pandas writes"));
}

TEST_F(ImageListTest, LabelsBeforePathsAreTold) {
  const auto said = [&](absl::string_view text) {
    return std::string(Index(text).status().message());
  };
  for (const bool keeps : {false, true}) {
    test_.keep_missing = keeps;
    EXPECT_THAT(
        said("cat,a.jpg\ndog,b.jpg\n"),
        AllOf(HasSubstr("train.txt:1: cat"),
              HasSubstr("`a.jpg` in column 2 looks like a path: paths come first in a line, "
                        "then labels (`images` and `labels` name the columns"),
              testing::Not(HasSubstr("header"))));
  }
  list_->add_classes("cat");
  EXPECT_THAT(said("cat,a.jpg\n"), HasSubstr("paths come first"));
  list_->clear_classes();
  ASSERT_TRUE(Index("a.jpg,b.jpg\n").ok());  // a class may be called so
  Rows();
}

TEST_F(ImageListTest, MoreNamesThanCanBeToldAreRefused) {
  std::string text;
  for (int i = 0; i < 11; ++i) {
    absl::StrAppend(&text, "a.jpg ", std::string(60'000, static_cast<char>('a' + i)), "\n");
  }
  ASSERT_TRUE(Index(text).ok());
  for (int i = 11; i < 26; ++i) {
    absl::StrAppend(&text, "a.jpg ", std::string(60'000, static_cast<char>('a' + i)), "\n");
  }
  EXPECT_THAT(Refusal(text), AllOf(HasSubstr("train.txt:18: "), HasSubstr("1 MiB")));
}

TEST_F(ImageListTest, ListWithoutSamplesIsRefused) {
  EXPECT_EQ(ReasonOf(Index("").status()), reason::kNoSamples);
  EXPECT_EQ(ReasonOf(Index("# nothing\n\n").status()), reason::kNoSamples);
  EXPECT_EQ(ReasonOf(test_.Index(folder_ / "none.txt").status()), reason::kFileNotFound);
}

TEST_F(ImageListTest, ControlCharactersOfANameAreEscaped) {
  const std::string name = "e\033[2J\n2026-01-01 forged.jpg";
  folder_.Write(name, "bytes");
  list_->add_entries(name.substr(0, 6) + ".jpg 1");
  test_.resolved.set_base_dir(folder_.path());
  const absl::Status missing = test_.Index("").status();
  EXPECT_EQ(ReasonOf(missing), reason::kFileNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("e\\x1b[2J\\x0a.jpg"));
}

}  // namespace
}  // namespace bulkhead
