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

TEST(ClientErrorTest, ALostServiceOfOnesOwnIsNotToBeLookedFor) {
  const auto message = [](bool embedded) {
    const grpc::Status lost(grpc::UNAVAILABLE, "gone");
    return std::string(FromRpcStatus(lost, "unix:/x", embedded).message());
  };
  EXPECT_NE(message(false).find("check that bulkheadd runs there"), std::string::npos);
  EXPECT_EQ(message(true).find("check that"), std::string::npos) << message(true);
  EXPECT_NE(message(true).find("the next loader starts another"), std::string::npos);
}

}  // namespace
}  // namespace bulkhead::client_internal
