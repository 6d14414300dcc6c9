#include "server/arena/worker_error.h"

#include <gtest/gtest.h>

#include "server/base/error.h"

namespace bulkhead {
namespace {

TEST(WorkerErrorTest, CarriesAStatusAcross) {
  const absl::Status status =
      SampleError(reason::kCorruptImage, "bad marker", {{"file", "a.jpg"}, {"offset", "3"}});
  const absl::Status back = StatusFromWorkerError(ToWorkerError(status));
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.message(), "bad marker");
  EXPECT_EQ(GetErrorInfo(back)->reason, "CORRUPT_IMAGE");
  EXPECT_EQ(GetErrorInfo(back)->metadata.at("file"), "a.jpg");
}

TEST(WorkerErrorTest, BytesThatAreNoTextDoNotLoseTheMessage) {
  const absl::Status status =
      SampleError(reason::kStageFailed, "caf\xe9 \xc3", {{"file", "\xff.jpg"}});
  const internal::v1::WorkerError error = ToWorkerError(status);
  internal::v1::WorkerError received;
  ASSERT_TRUE(received.ParseFromString(error.SerializeAsString()));
  EXPECT_EQ(received.message(), "caf? ?");
  EXPECT_EQ(received.metadata().at("file"), "?.jpg");
}

TEST(WorkerErrorTest, WhatIsForPeopleCommandsNoTerminalInAnyMessage) {
  const auto with_text = [](internal::v1::WorkerError& error) {
    error.set_message("one\n\ttwo\033[2J\xc2\x9b");
    (*error.mutable_metadata())["file"] = "a\033.jpg";
  };
  internal::v1::FromWorker messages[4];
  with_text(*messages[0].mutable_failed()->mutable_error());
  with_text(*messages[1].mutable_lease_failed()->mutable_error());
  with_text(*messages[2].mutable_lease_done()->add_substitutions()->mutable_error());
  messages[3].mutable_bound()->add_sandbox()->set_reason("one\n\ttwo\033[2J\xc2\x9b");
  for (internal::v1::FromWorker& message : messages) MakePrintable(message);
  const std::string expected = "one\n\ttwo\\x1b[2J\\xc2\\x9b";
  EXPECT_EQ(messages[0].failed().error().message(), expected);
  EXPECT_EQ(messages[0].failed().error().metadata().at("file"), "a\033.jpg");
  EXPECT_EQ(messages[1].lease_failed().error().message(), expected);
  EXPECT_EQ(messages[2].lease_done().substitutions(0).error().message(), expected);
  EXPECT_EQ(messages[3].bound().sandbox(0).reason(), expected);
}

TEST(WorkerErrorTest, AnErrorWithoutATextGetsOne) {
  internal::v1::FromWorker message;
  message.mutable_failed()->mutable_error();
  MakePrintable(message);
  EXPECT_EQ(message.failed().error().message(), "the worker reported an error without a text");
}

TEST(WorkerErrorTest, ANoteIsBoundedAndCannotPassForOtherLines) {
  internal::v1::FromWorker message;
  v1::Note& note = *message.mutable_note();
  note.set_level(static_cast<v1::Note::Level>(77));
  note.set_text("one\033[2J\nERROR two\n" + std::string(5000, 'x'));
  MakePrintable(message);
  EXPECT_EQ(note.level(), v1::Note::LEVEL_INFO);
  EXPECT_EQ(note.stage(), "a stage") << "not the service";
  EXPECT_EQ(note.text().substr(0, 24), "one\\x1b[2J\n  | ERROR two");
  EXPECT_LE(note.text().size(), size_t{2048});
}

TEST(WorkerErrorTest, DoesNotTrustTheCode) {
  internal::v1::WorkerError error;
  EXPECT_EQ(StatusFromWorkerError(error).code(), absl::StatusCode::kInternal);
  error.set_code(4711);
  EXPECT_EQ(StatusFromWorkerError(error).code(), absl::StatusCode::kUnknown);
  error.set_code(-1);
  EXPECT_EQ(StatusFromWorkerError(error).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace bulkhead
