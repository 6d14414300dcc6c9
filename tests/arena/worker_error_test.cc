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
