#include "server/base/record_name.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(RecordNameTest, LeavesPrintableNamesAlone) {
  for (const char* name :
       {"pos-003.tfrecord@81923", "photos/日本語/ö.jpg", "range@17", "a b'c\\x01"}) {
    EXPECT_EQ(CanonicalRecordName(name), name);
  }
}

TEST(RecordNameTest, EscapesWhatIsNoText) {
  EXPECT_EQ(CanonicalRecordName("a\nb\x7f.jpg"), "a\\x0ab\\x7f.jpg");
  EXPECT_EQ(CanonicalRecordName("\xff\xc3\xa4\xc3\x01@5"), "\\xffä\\xc3\\x01@5");
}

TEST(RecordNameTest, WhatCommandsATerminalIsNotPrintable) {
  EXPECT_EQ(Printable("a\033[2J\xc2\x9b"
                      "2Jü\r"),
            "a\\x1b[2J\\xc2\\x9b2Jü\\x0d");
  EXPECT_TRUE(IsPrintable("photos/日本語/ö \xc2\xa0.jpg"));
  EXPECT_FALSE(IsPrintable("a\n"));
  EXPECT_FALSE(IsPrintable("\xc2\x80"));
  EXPECT_FALSE(IsPrintable("\xff"));
}

TEST(RecordNameTest, WhatChangesTheOrderOfALineIsNotPrintable) {
  EXPECT_EQ(Printable("a\u202egpj.exe"), "a\\xe2\\x80\\xaegpj.exe");
  EXPECT_EQ(Printable("\u2028\u2066\u2069"), "\\xe2\\x80\\xa8\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
  EXPECT_FALSE(IsPrintable("\u202a"));
  // The neighbours.
  EXPECT_TRUE(IsPrintable("\u2027\u202f\u2065\u206a – …"));
}

TEST(RecordNameTest, ATextKeepsItsLines) {
  EXPECT_EQ(PrintableLines("one\n\ttwo ü\r\n\033]0;title\007\xc2\x9b"
                           "2J\xff\xc3"),
            "one\n\ttwo ü\\x0d\n\\x1b]0;title\\x07\\xc2\\x9b2J\\xff\\xc3");
}

TEST(RecordNameTest, ATextOfNothingElseIsEscapedInOnePass) {
  const std::string text(size_t{4} << 20, '\1');
  EXPECT_EQ(PrintableLines(text).size(), 4 * text.size());
  std::string of_two_bytes;
  while (of_two_bytes.size() < text.size()) of_two_bytes += "\xc2\x9b";
  EXPECT_EQ(PrintableLines(of_two_bytes).size(), 4 * of_two_bytes.size());
}

TEST(RecordNameTest, WhatFollowsHalfACharacterIsNoPartOfIt) {
  EXPECT_EQ(PrintableLines("a\xc2\nb"), "a\\xc2\nb");
  EXPECT_EQ(Printable("\xc2Z"), "\\xc2Z");
  EXPECT_EQ(Printable("\xc2"), "\\xc2");
}

TEST(RecordNameTest, ShortensNamesThatAreTooLongToTheirEndsAndKeepsThemApart) {
  const std::string tail(300, 'x');
  const std::string one = CanonicalRecordName("one/" + tail + "@7");
  const std::string two = CanonicalRecordName("two/" + tail + "@7");
  EXPECT_EQ(one.size(), kMaxRecordNameBytes);
  EXPECT_NE(one, two);
  EXPECT_EQ(one.substr(one.size() - 4), "xx@7");
  EXPECT_EQ(CanonicalRecordName(one), one);
  const std::string longest(kMaxRecordNameBytes, 'x');
  EXPECT_EQ(CanonicalRecordName(longest), longest);
}

TEST(RecordNameTest, DoesNotCutACharacterInTwo) {
  for (size_t extra = 0; extra < 4; ++extra) {
    std::string name(extra, 'x');
    for (int i = 0; i < 100; ++i) name += "語";
    const std::string shortened = CanonicalRecordName(name);
    EXPECT_LE(shortened.size(), kMaxRecordNameBytes);
    EXPECT_EQ(shortened.find("\\x"), std::string::npos);
    EXPECT_EQ(CanonicalRecordName(shortened), shortened);
  }
}

TEST(RecordNameTest, MetadataTellsFileAndOffset) {
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(RecordMetadata("a@b.tfrecord@17"),
            (Map{{"record", "a@b.tfrecord@17"}, {"file", "a@b.tfrecord"}, {"offset", "17"}}));
  EXPECT_EQ(RecordMetadata("me@home.jpg"),
            (Map{{"record", "me@home.jpg"}, {"file", "me@home.jpg"}}));
}

}  // namespace
}  // namespace bulkhead
