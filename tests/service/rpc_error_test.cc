#include "server/service/rpc_error.h"

#include <gtest/gtest.h>

#include "bulkhead/internal/v1/rpc_status.pb.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

TEST(RpcErrorTest, CarriesReasonAndMetadataInTheDetails) {
  const grpc::Status rpc = ToRpcStatus(MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                                                 "no such file", {{"file", "a.txt"}}));
  EXPECT_EQ(rpc.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(rpc.error_message(), "no such file");
  internal::v1::RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(rpc.error_details()));
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  internal::v1::RpcErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(details.details(0).value()));
  EXPECT_EQ(info.reason(), "FILE_NOT_FOUND");
  EXPECT_EQ(info.domain(), "bulkhead");
  EXPECT_EQ(info.metadata().at("file"), "a.txt");
}

TEST(RpcErrorTest, CutsWhatWouldNotFitIntoATrailer) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "é";
  const grpc::Status rpc = ToRpcStatus(
      MakeError(absl::StatusCode::kInternal, reason::kInternal, text, {{"file", text}}));
  EXPECT_LT(rpc.error_message().size() + rpc.error_details().size(), 6000);
  EXPECT_LT(rpc.error_message().size() * 3, 4096 + 20);  // each byte takes three in a trailer
}

TEST(RpcErrorTest, OkIsOk) { EXPECT_TRUE(ToRpcStatus(absl::OkStatus()).ok()); }

}  // namespace
}  // namespace bulkhead
