#pragma once

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

namespace bulkhead {

// The service's side of a call, whose messages are bytes.
using RawCall = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// A service that sees each of its methods as two streams of bytes. Clients see no difference: on
// the wire a single request or answer is a stream of one message. But gRPC reads the whole request
// of another method before it asks the handler; here nothing is read before the handler wants it,
// so a call can be refused before any of its request takes memory.
class RawService : public grpc::Service {
 protected:
  // Runs for each call of a method; returns its reactor. Must not block.
  using Handler = std::function<RawCall*(grpc::CallbackServerContext*)>;

  // `method`: "/package.Service/Method", a literal.
  void Handle(const char* method, Handler handler) {
    using grpc::internal::RpcMethod;
    AddMethod(new grpc::internal::RpcServiceMethod(method, RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRawCallback(
        method_count_++,
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            std::move(handler)));
  }

 private:
  int method_count_ = 0;
};

}  // namespace bulkhead
