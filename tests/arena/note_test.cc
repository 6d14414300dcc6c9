#include "server/arena/note.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(NoteTest, AStagesLinesStayTogether) {
  EXPECT_EQ(NoteText("one\ntwo\n\n", 100), "one\n  | two");
  EXPECT_EQ(NoteText("tab\there", 100), "tab\there");
  EXPECT_EQ(NoteText(NoteText("one\ntwo", 100), 100), "one\n  | two") << "once is enough";
}

TEST(NoteTest, NothingCommandsATerminal) {
  EXPECT_EQ(NoteText("a\033[2Jb\xffz\r", 100), "a\\x1b[2Jb\\xffz");
  EXPECT_EQ(NoteText("caf\xc3\xa9", 100), "caf\xc3\xa9");
}

TEST(NoteTest, IsCutAtACharacterAndSaysSo) {
  EXPECT_EQ(NoteText("0123456789", 10), "0123456789");
  EXPECT_EQ(NoteText("0123456789a", 10), "012345 …");
  const std::string letters = "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";
  EXPECT_EQ(NoteText(letters, 11), "\xc3\xa9\xc3\xa9\xc3\xa9 …");
  const std::string escaped = NoteText(std::string(5000, '\033'), kMostNoteBytes);
  EXPECT_LE(escaped.size(), kMostNoteBytes);
  EXPECT_EQ(NoteText(escaped, kMostNoteBytes), escaped);
}

TEST(NoteTest, AWorkerDoesNotSpeakForTheService) {
  v1::Note said;
  said.set_text("all is well");
  EXPECT_EQ(CheckedNote(said).stage(), "a stage");
  said.set_stage("stages[1] python (a:b)\nWARNING");
  said.set_level(v1::Note::LEVEL_ERROR);
  EXPECT_EQ(CheckedNote(said).stage(), "stages[1] python (a:b)\\x0a  | WARNING");
  EXPECT_EQ(CheckedNote(said).level(), v1::Note::LEVEL_ERROR);
}

}  // namespace
}  // namespace bulkhead
