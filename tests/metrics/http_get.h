#pragma once

#include <string>

#include "server/os/files/fd.h"

namespace bulkhead {

// A connection to a port of the loopback.
class HttpClient {
 public:
  explicit HttpClient(int port);

  void Send(const std::string& bytes);
  // Nothing more will be sent.
  void EndSending();
  // Everything that comes back until the other side closes; empty when it does not answer.
  std::string ReceiveAll();

 private:
  UniqueFd socket_;
};

// Sends `request` on a connection of its own and returns what comes back.
std::string HttpExchange(int port, const std::string& request);

// The same for "GET path".
std::string HttpGet(int port, const std::string& path);

}  // namespace bulkhead
