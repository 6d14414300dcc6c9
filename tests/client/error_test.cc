#include "client/cpp/internal/base/error.h"

#include <gtest/gtest.h>

#include "bulkhead/internal/v1/rpc_status.pb.h"

namespace bulkhead::client_internal {
namespace {

TEST(ClientErrorTest, CarriesReasonAndMetadata) {
  const absl::Status status =
      MakeClientError(absl::StatusCode::kDataLoss, "CORRUPT_RECORD", "bad", {{"file", "f"}});
  EXPECT_EQ(ErrorReason(status), "CORRUPT_RECORD");
  EXPECT_EQ(ErrorMetadata(status).at("file"), "f");
  EXPECT_EQ(ErrorReason(absl::OkStatus()), "");
  EXPECT_TRUE(ErrorMetadata(absl::InternalError("x")).empty());
}

TEST(ClientErrorTest, TakesReasonAndMetadataFromTheTrailer) {
  internal::v1::RpcErrorInfo info;
  info.set_reason("SPEC_INVALID");
  info.mutable_metadata()->insert({"line", std::string("3")});
  internal::v1::RpcStatus details;
  details.add_details()->set_type_url("type.googleapis.com/google.rpc.DebugInfo");
  auto* detail = details.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail->set_value(info.SerializeAsString());
  const absl::Status status = FromRpcStatus(
      grpc::Status(grpc::INVALID_ARGUMENT, "a:3:1: x", details.SerializeAsString()), "t");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "a:3:1: x");
  EXPECT_EQ(ErrorReason(status), "SPEC_INVALID");
  EXPECT_EQ(ErrorMetadata(status).at("line"), "3");
}

TEST(ClientErrorTest, NonsenseInTheTrailerDoesNotHideTheStatus) {
  const absl::Status status =
      FromRpcStatus(grpc::Status(grpc::UNAVAILABLE, "gone", "\xff\xff"), "unix:/x");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(status), "SERVICE_UNAVAILABLE");
  EXPECT_EQ(ErrorMetadata(status).at("target"), "unix:/x");
}

TEST(ClientErrorTest, ACallThatAServiceWithFullMemoryEndedIsMadeAgain) {
  const char what[] = "Received RST_STREAM with error code 11";
  const absl::Status ended = FromRpcStatus(grpc::Status(grpc::RESOURCE_EXHAUSTED, what), "unix:/x");
  EXPECT_EQ(ErrorReason(ended), "SERVICE_UNAVAILABLE");
  const char too_long[] = "Received message larger than max (9 vs. 8)";
  const absl::Status refused =
      FromRpcStatus(grpc::Status(grpc::RESOURCE_EXHAUSTED, too_long), "unix:/x");
  EXPECT_EQ(ErrorReason(refused), "RESOURCE_EXHAUSTED");
}

TEST(ClientErrorTest, ALostServiceIsToBeLookedForAndAStreamOfItToGoOn) {
  const auto message = [](Caller caller) {
    const grpc::Status lost(grpc::UNAVAILABLE, "gone");
    return std::string(FromRpcStatus(lost, "unix:/x", caller).message());
  };
  const std::string what = "the service at unix:/x cannot be reached or has ended (gone); ";
  EXPECT_EQ(message(Caller::kOneCall), what + "check that bulkheadd runs there");
  EXPECT_EQ(message(Caller::kStream),
            what + "check that bulkheadd runs there, then go on from the last cursor");
  EXPECT_EQ(message(Caller::kOwnStream),
            what +
                "it was started for this job, and the next loader starts another; go on from "
                "the last cursor");
}

TEST(ClientErrorTest, WhereTheLoaderGoesOnByItselfNoAdviceIsGiven) {
  const grpc::Status lost(grpc::UNAVAILABLE, "gone");
  for (const Caller caller : {Caller::kStream, Caller::kOwnStream}) {
    EXPECT_EQ(WithoutAdvice(FromRpcStatus(lost, "unix:/x", caller)),
              "the service at unix:/x cannot be reached or has ended (gone)");
  }
}

}  // namespace
}  // namespace bulkhead::client_internal
