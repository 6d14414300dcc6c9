#include "server/image/jpeg/header.h"

#include <gtest/gtest.h>

#include <memory>

#include "server/image/codecs/jpeg_decoder.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead {
namespace {

using jpeg::Fallback;

Fallback Parse(const std::string& file) {
  const auto header = std::make_unique<jpeg::Header>();
  return jpeg::ParseHeader(file, *header);
}

JpegRecipe Subsampled(int h, int v) {
  JpegRecipe recipe;
  recipe.h = h;
  recipe.v = v;
  return recipe;
}

// `file` with the bytes at `offset` behind the first marker FF `marker` replaced.
std::string With(std::string file, char marker, size_t offset, const std::string& bytes) {
  return file.replace(file.find(std::string("\xFF") + marker) + offset, bytes.size(), bytes);
}

TEST(JpegHeaderTest, ReadsWhatTheFileSays) {
  JpegRecipe recipe = Subsampled(2, 2);
  recipe.height = 77;
  recipe.width = 131;
  recipe.restart_interval = 7;
  recipe.quality = 50;
  const std::string file = MakeJpegFile(recipe);
  const auto header = std::make_unique<jpeg::Header>();
  ASSERT_EQ(jpeg::ParseHeader(file, *header), Fallback::kNone);
  EXPECT_EQ(header->size, (ImageSize{77, 131}));
  EXPECT_EQ(header->component_count, 3);
  EXPECT_EQ(header->h_max, 2);
  EXPECT_EQ(header->v_max, 2);
  EXPECT_EQ(header->mcus_across(), 9);
  EXPECT_EQ(header->mcus_down(), 5);
  EXPECT_EQ(header->restart_interval, 7);
  EXPECT_EQ(header->scan_begin, file.find("\xFF\xDA") + 14);
  // The tables of T.81, annex K, as quality 50 leaves them: by rows, not in the order of the file.
  EXPECT_EQ(header->quant[0][0], 16);
  EXPECT_EQ(header->quant[0][1], 11);
  EXPECT_EQ(header->quant[0][8], 12);
  EXPECT_EQ(header->quant[1][63], 99);
  EXPECT_EQ(header->dc[0].symbol_count, 12);
  EXPECT_EQ(header->ac[1].symbol_count, 162);
}

TEST(JpegHeaderTest, TakesTheUsualSamplingsOnly) {
  for (const auto& [h, v] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    EXPECT_EQ(Parse(MakeJpegFile(Subsampled(h, v))), Fallback::kNone) << h << v;
  }
  for (const auto& [h, v] : {std::pair(1, 4), {2, 4}, {4, 2}, {3, 1}}) {
    EXPECT_EQ(Parse(MakeJpegFile(Subsampled(h, v))), Fallback::kSampling) << h << v;
  }
  JpegRecipe gray;
  gray.gray = true;
  EXPECT_EQ(Parse(MakeJpegFile(gray)), Fallback::kNone);
}

TEST(JpegHeaderTest, LeavesTheUnusualToLibjpeg) {
  const std::string file = MakeJpegFile({});
  ASSERT_EQ(Parse(file), Fallback::kNone);
  JpegRecipe progressive;
  progressive.progressive = true;
  EXPECT_EQ(Parse(MakeJpegFile(progressive)), Fallback::kProgressive);
  jpeg::Header header;
  EXPECT_EQ(jpeg::ParseHeader(MakeJpegFile(progressive), header, jpeg::Scans::kAny),
            Fallback::kNone);
  EXPECT_EQ(Parse(With(file, '\xC0', 1, "\xC9")), Fallback::kProgressive);  // arithmetic
  EXPECT_EQ(Parse(With(file, '\xC0', 1, "\xC1")), Fallback::kNone);         // extended sequential
  EXPECT_EQ(Parse(With(file, '\xC0', 4, "\x0C")), Fallback::kPrecision);
  EXPECT_EQ(Parse(With(file, '\xC0', 9, "\x04")), Fallback::kComponents);
  EXPECT_EQ(Parse(With(file, '\xC0', 13, "\x01")), Fallback::kComponents);  // an id twice
  EXPECT_EQ(Parse(With(file, '\xC0', 12, "\x04")), Fallback::kTables);
  EXPECT_EQ(Parse(With(file, '\xDA', 4, "\x01")), Fallback::kScans);
  EXPECT_EQ(Parse(With(file, '\xDA', 5, "\x02")), Fallback::kScans);  // another order
  EXPECT_EQ(Parse(With(file, '\xDA', 12, "\x3E")), Fallback::kScans);
  EXPECT_EQ(Parse(With(file, '\xDA', 6, "\x20")), Fallback::kTables);  // no such table
  EXPECT_EQ(Parse(With(file, '\xDB', 4, "\x21")), Fallback::kTables);
  EXPECT_EQ(Parse(With(file, '\xC4', 4, "\x05")), Fallback::kTables);
  EXPECT_EQ(Parse(With(file, '\xE0', 1, "\xDC")), Fallback::kSegments);
  JpegRecipe narrow = Subsampled(2, 1);
  narrow.width = 4;
  EXPECT_EQ(Parse(MakeJpegFile(narrow)), Fallback::kSize);
  narrow.width = 5;
  EXPECT_EQ(Parse(MakeJpegFile(narrow)), Fallback::kNone);
}

TEST(JpegHeaderTest, KnowsWhichFilesAreYcc) {
  const std::string jfif = MakeJpegFile({});
  const size_t app0 = jfif.find("\xFF\xE0");
  const std::string none = jfif.substr(0, app0) + jfif.substr(app0 + 18);
  EXPECT_EQ(Parse(none), Fallback::kNone);
  std::string rgb = With(With(With(none, '\xC0', 10, "R"), '\xC0', 13, "G"), '\xC0', 16, "B");
  rgb = With(With(With(rgb, '\xDA', 5, "R"), '\xDA', 7, "G"), '\xDA', 9, "B");
  EXPECT_EQ(Parse(rgb), Fallback::kColorSpace);
  const std::string adobe(
      "\xFF\xEE\0\x0E"
      "Adobe\0\x64\0\0\0\0",
      15);
  EXPECT_EQ(Parse(none.substr(0, 2) + adobe + '\0' + none.substr(2)), Fallback::kColorSpace);
  EXPECT_EQ(Parse(none.substr(0, 2) + adobe + '\1' + none.substr(2)), Fallback::kNone);
  EXPECT_EQ(Parse(none.substr(0, 2) + adobe + '\2' + none.substr(2)), Fallback::kColorSpace);
  // JFIF's word counts more than Adobe's.
  EXPECT_EQ(Parse(jfif.substr(0, 2) + adobe + '\0' + jfif.substr(2)), Fallback::kNone);
}

TEST(JpegHeaderTest, NoCutMakesItReadOn) {
  const std::string file = MakeJpegFile(Subsampled(2, 2));
  const size_t scan = file.find("\xFF\xDA") + 14;
  for (size_t size = 0; size < scan; ++size) {
    // A copy of its own, so that a sanitizer sees a read beyond it.
    EXPECT_NE(Parse(std::string(file.data(), size)), Fallback::kNone) << size;
  }
}

}  // namespace
}  // namespace bulkhead
